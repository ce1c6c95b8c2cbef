#include "cuda/sm90/run.h"

#include <algorithm>
#include <array>

#include "cuda/common/kernel_choice.h"
#include "cuda/runtime/tensor_map.h"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/registry/small_m.h"
#include "cuda/sm90/small_m/params.h"

namespace tileon::sm90 {
namespace {

constexpr auto kE4M3 = DType::kFloat8E4M3, kE2M1 = DType::kFloat4E2M1;
constexpr auto kE8M0 = ScaleType::kE8M0;

// Mixed products have two orders.
constexpr int kFormatPairs = 5;
int index_of(const SmallMFormat& format) {
  if (format.scale == ScaleType::kE4M3) return 4;
  return (format.a == kE2M1) * 2 + (format.b == kE2M1);
}

class Kernels {
 public:
  Kernels() {
    for (int tile = 0; tile < kSmallMTileCount; ++tile) {
      set(tile, {kE4M3, kE4M3, kE8M0}, find_small_m<kE4M3, kE4M3, kE8M0>(tile));
      set(tile, {kE4M3, kE2M1, kE8M0}, find_small_m<kE4M3, kE2M1, kE8M0>(tile));
      set(tile, {kE2M1, kE4M3, kE8M0}, find_small_m<kE2M1, kE4M3, kE8M0>(tile));
      set(tile, {kE2M1, kE2M1, kE8M0}, find_small_m<kE2M1, kE2M1, kE8M0>(tile));
      set(tile, {kE2M1, kE2M1, ScaleType::kE4M3}, find_small_m<kE2M1, kE2M1, ScaleType::kE4M3>(tile));
    }
  }

  Kernel<SmallMParams>& at(int tile, const SmallMFormat& format) { return kernels_[tile][index_of(format)]; }

 private:
  void set(int tile, const SmallMFormat& format, KernelFunction<SmallMParams> function) {
    at(tile, format).function = function;
  }

  std::array<std::array<Kernel<SmallMParams>, kFormatPairs>, kSmallMTileCount> kernels_;
};

// Rows of codes in boxes of `box_bytes` x `box_rows`.
CUtensorMap map_codes(const Operand& operand, int64_t rows, const Problem& problem, int box_bytes, int box_rows,
                      CUtensorMapSwizzle swizzle) {
  const auto row_bytes = static_cast<uint64_t>(problem.k / elements_per_byte(operand.dtype));
  const uint64_t stride = rows > 1 ? static_cast<uint64_t>(operand.stride_mn) : kTmaAlignment;
  // Where k is 0 nothing is read: any address will do.
  const void* valid = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(problem.out.data) / 16 * 16);
  const TensorBox tensor{4,
                         {std::max<uint64_t>(row_bytes, 1), static_cast<uint64_t>(rows), 1, 1},
                         {0, row_bytes == 0 ? kTmaAlignment : stride, kTmaAlignment, kTmaAlignment},
                         {static_cast<uint32_t>(box_bytes), static_cast<uint32_t>(box_rows), 1, 1}};
  return encode_tensor_map(row_bytes == 0 ? valid : operand.data, CU_TENSOR_MAP_DATA_TYPE_UINT8, tensor, swizzle);
}

}  // namespace

void run_small_m(int tile, const Problem& problem, const Gpu& gpu, cudaStream_t stream) {
  static Kernels kernels;
  const SmallMFormat format = format_of(problem);
  const int tile_m = kSmallMTiles[tile];
  SmallMParams params;
  params.map_a = map_codes(problem.a, problem.m, problem, format.line_bytes_a(), tile_m, CU_TENSOR_MAP_SWIZZLE_NONE);
  params.map_b = map_codes(problem.b, problem.n, problem, kSmallMLineBytes, kSmallMTileN, CU_TENSOR_MAP_SWIZZLE_128B);
  params.tiles_n = ceil_divide(problem.n, kSmallMTileN);
  params.blocks = ceil_divide(problem.k, format.stage_k());
  params.splits = small_m_splits(problem, tile_m, gpu);
  params.blocks_per_split = ceil_divide(params.blocks, params.splits);
  params.stages = std::clamp(params.blocks_per_split, 1, small_m_stages(format, tile_m));
  params.scales_in_blocks = lie_in_blocks(problem.a.scale) && lie_in_blocks(problem.b.scale);
  params.vector_stores = takes_vector_stores(problem);
  params.problem = scaled_kernel_problem(problem);
  const auto tiles = static_cast<unsigned>(ceil_divide(problem.m, tile_m) * params.tiles_n);
  launch(kernels.at(tile, format), dim3(tiles, static_cast<unsigned>(params.splits)), small_m_threads(tile_m),
         small_m_shared_bytes(format, tile_m, params.stages), params, stream);
}

}  // namespace tileon::sm90
