// Every row of the table for few rows of a.
#include <utility>

#include "cuda/sm80/launch/launch.cuh"
#include "cuda/sm80/registry/dense.h"
#include "cuda/sm80/skinny/kernel.cuh"

namespace tileon::sm80 {
namespace {

template <int kRow>
bool launch_if(int row, const Problem& problem, cudaStream_t stream) {
  constexpr TileConfig config = kRows[kRow].tile;
  if constexpr (config.family == Family::kSkinny) {
    if (row == kRow) launch<&skinny<SkinnyKernel<config>>, config, 0>(problem, stream);
    return row == kRow;
  }
  return false;
}

template <int... kRow>
bool launch_one_of(std::integer_sequence<int, kRow...>, int row, const Problem& problem, cudaStream_t stream) {
  return (launch_if<kRow>(row, problem, stream) || ...);
}

}  // namespace

bool run_skinny(int row, const Problem& problem, cudaStream_t stream) {
  return launch_one_of(std::make_integer_sequence<int, kDenseConfigCount>(), row, problem, stream);
}

}  // namespace tileon::sm80
