// The kernels that add up the sums of slices, by the accumulator and by what the product's operands hold.
#include "cuda/runtime/dependent_launch.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm80/kernels/add_slices.cuh"
#include "cuda/sm80/registry/registry.h"

namespace tileon::sm80 {
namespace {

template <typename Accumulator, typename KernelPart>
void launch(const KernelPart& part, const Problem& problem, const void* sums, int slices, const Gpu& gpu,
            cudaStream_t stream) {
  using Params = AddSlicesParams<Accumulator, KernelPart>;
  const int groups = slices >= kGroupsFromSlices ? kAddWarps : 1;
  const int rows_of_cta = kAddWarps / groups;
  const Params params{part,
                      static_cast<const Accumulator*>(sums),
                      slices_pitch(problem),
                      slices,
                      groups,
                      ceil_divide(problem.n, kAddColumns),
                      ceil_divide(problem.m, rows_of_cta),
                      takes_vector_stores(problem)};
  const int64_t blocks = problem.batch * params.column_blocks * params.row_blocks;
  launch_kernel("launching a kernel that adds up the sums of slices",
                {.grid = dim3(static_cast<unsigned>(blocks)),
                 .threads = kAddWarps * 32,
                 .stream = stream,
                 .may_overlap = gpu.image >= kOverlapCapability},
                &add_slices<Params>, params);
}

}  // namespace

void launch_add_slices(const Problem& problem, const void* sums, int slices, const Gpu& gpu, cudaStream_t stream) {
  if (problem.is_scaled())
    launch<float>(scaled_kernel_problem(problem), problem, sums, slices, gpu, stream);
  else if (problem.a.dtype == DType::kFloat64)
    launch<double>(kernel_problem(problem), problem, sums, slices, gpu, stream);
  else
    launch<float>(kernel_problem(problem), problem, sums, slices, gpu, stream);
}

}  // namespace tileon::sm80
