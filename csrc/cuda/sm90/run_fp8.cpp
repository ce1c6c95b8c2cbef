#include "cuda/sm90/run.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <array>

#include "cuda/sm90/heuristics/fp8.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/launch/params.h"
#include "cuda/sm90/registry/fp8.h"

namespace tileon::sm90 {
namespace {

class Kernels {
 public:
  Kernels() {
    for (int row = 0; row < kFp8ConfigCount; ++row) {
      add<__nv_fp8_e4m3, __nv_fp8_e4m3>(DType::kFloat8E4M3, DType::kFloat8E4M3, row);
      add<__nv_fp8_e4m3, __nv_fp8_e5m2>(DType::kFloat8E4M3, DType::kFloat8E5M2, row);
      add<__nv_fp8_e5m2, __nv_fp8_e4m3>(DType::kFloat8E5M2, DType::kFloat8E4M3, row);
      add<__nv_fp8_e5m2, __nv_fp8_e5m2>(DType::kFloat8E5M2, DType::kFloat8E5M2, row);
    }
  }

  // Either output's stores those that do not go through TMA.
  Kernel<KernelParams>& at(DType a, DType b, DType out, int row) {
    const int pairing = (a == DType::kFloat8E5M2) * 2 + (b == DType::kFloat8E5M2);
    return kernels_[row][pairing][out == DType::kBFloat16];
  }

 private:
  template <typename A, typename B>
  void add(DType a, DType b, int row) {
    at(a, b, DType::kFloat16, row).function = find_float8<A, B, __half>(row);
    at(a, b, DType::kBFloat16, row).function = find_float8<A, B, __nv_bfloat16>(row);
  }

  std::array<std::array<std::array<Kernel<KernelParams>, 2>, 4>, kFp8ConfigCount> kernels_;
};

}  // namespace

void run_float8(int row, const Problem& problem, const Gpu& gpu, cudaStream_t stream) {
  static Kernels kernels;
  const Row& this_row = kFp8Configs[row].row;
  const LaunchPlan plan = plan_launch(this_row, as_pairs(problem), gpu, {.float8_k = problem.k});
  launch(kernels.at(problem.a.dtype, problem.b.dtype, problem.out_dtype, row),
         dim3(static_cast<unsigned>(plan.clusters)), this_row.tile.threads(), plan.shared_bytes, plan.params, stream);
}

}  // namespace tileon::sm90
