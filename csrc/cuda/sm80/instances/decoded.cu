// The kernels that decode every operand of a product with scales, by a config's number and the bits of an element.
#include "cuda/sm80/kernels/decoded.cuh"
#include "cuda/sm80/registry/instantiate.cuh"

namespace tileon::sm80 {

inline DecodedKernelProblem part_for(KernelFunction<DecodedParams>, const Problem& problem) {
  return {scaled_kernel_problem(problem), problem.global_scale_stride, reads_four(problem.a, problem.m),
          reads_four(problem.b, problem.n)};
}

void launch_decoded(int config, const Problem& problem, cudaStream_t stream) {
  visit_below<int, kDecodedConfigCount>(config, [&](auto index) {
    visit<16, 8, 4>(bits_of_element(problem.a.dtype), [&](auto bits_a) {
      visit<8, 4>(bits_of_element(problem.b.dtype), [&](auto bits_b) {
        using Kernel = DecodedKernel<kDecodedConfigs[decltype(index)::value].tile, decltype(bits_a)::value,
                                     decltype(bits_b)::value>;
        launch<&gemm_decoded<Kernel>, Kernel>(problem, {}, stream);
      });
    });
  });
}

}  // namespace tileon::sm80
