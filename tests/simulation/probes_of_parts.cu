// Parts of kernels alone: what no product shows.
#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/small_m/direct_loads.cuh"
#include "probe.h"

namespace tileon {
namespace {

struct Columns {
  ScaledKernelProblem problem;
  bool copies;
  uint16_t* out;  // else [2][pieces][eights][panels][32]
};
// Of a warp's rows of `a`, two chunks of k (small_m/direct_loads.cuh): what lies in both stages once they are copied;
// else, of slots of sixteen bytes that hold their own numbers, those that each lane reads.
template <typename Kernel>
__global__ void copy_columns(const __grid_constant__ Columns params) {
  auto* memory = reinterpret_cast<uint16_t*>(ptx::DynamicShared<128>{}.begin);
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  const int lane = static_cast<int>(threadIdx.x);
  constexpr int kNumbers = sm90::kDirectStages * Kernel::tile_m * sm90::kDirectChunkK;
  const sm90::DirectColumns<Kernel> columns(params.problem, 0, shared, lane);
  for (int i = lane; i < kNumbers; i += 32) memory[i] = static_cast<uint16_t>(i / 8);
  __syncwarp();
  if (params.copies) {
    for (int stage = 0; stage < sm90::kDirectStages; ++stage) columns.copy(stage, stage);
    ptx::cp_async_wait<0>();
    __syncwarp();
    for (int i = lane; i < kNumbers; i += 32) params.out[i] = memory[i];
    return;
  }
  uint16_t* out = params.out + lane;
  for (int stage = 0; stage < sm90::kDirectStages; ++stage)
    for (int piece = 0; piece < Kernel::pieces; ++piece)
      for (int eight = 0; eight < Kernel::eights; ++eight) {
        uint4 pairs[Kernel::panels_m];
        columns.load(stage, piece, eight, pairs);
        for (int panel = 0; panel < Kernel::panels_m; ++panel, out += 32) *out = static_cast<uint16_t>(pairs[panel].x);
      }
}

template <int kTileM, DType kB, ScaleType kScale>
const char* run_copy_columns(const Columns& params) {
  using Kernel = sm90::DirectWeightTypes<kTileM, 16, DType::kBFloat16, kB, kScale>;
  return run(copy_columns<Kernel>, params, config_of(32, sm90::direct_warp_bytes(kTileM, 16)));
}

}  // namespace
}  // namespace tileon

using namespace tileon;

extern "C" {

// `a`: rows of 256 numbers, of which the first k count. `of_fp4`: beside a weight of fp4, else of int8.
const char* probe_copy_columns(int tile_m, int of_fp4, int copies, const uint16_t* a, int m, int k, uint16_t* out) {
  Columns params{{}, copies != 0, out};
  params.problem.m = m;
  params.problem.k = k;
  params.problem.a.data = a;
  params.problem.a.stride_row = 256;
  if (of_fp4 != 0)
    return tile_m == 8 ? run_copy_columns<8, DType::kFloat4E2M1, ScaleType::kE8M0>(params)
                       : run_copy_columns<16, DType::kFloat4E2M1, ScaleType::kE8M0>(params);
  return tile_m == 8 ? run_copy_columns<8, DType::kInt8, ScaleType::kFloat32>(params)
                     : run_copy_columns<16, DType::kInt8, ScaleType::kFloat32>(params);
}

}
