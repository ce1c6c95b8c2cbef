// The kernels that decode every operand of a product with scales, by a config's number and the bits of an element.
#include <algorithm>

#include "cuda/sm80/kernels/decoded.cuh"
#include "cuda/sm80/registry/instantiate.cuh"

namespace tileon::sm80 {
namespace {

int bits_of_element(DType dtype) { return info(dtype).bytes * 8 / elements_per_byte(dtype); }

// Whether four neighbours along k, as the reader takes them, lie together at a multiple of their bytes.
bool reads_four(const Operand& operand, int64_t rows) {
  const int64_t element = info(operand.dtype).bytes, four = 4 * element / elements_per_byte(operand.dtype);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  return operand.stride_k == 1 && (address | (rows > 1 ? operand.stride_mn * element : 0)) % four == 0;
}

DecodedKernelProblem decoded_problem(const Problem& problem) {
  return {scaled_kernel_problem(problem), problem.global_scale_stride, reads_four(problem.a, problem.m),
          reads_four(problem.b, problem.n)};
}

}  // namespace

inline DecodedKernelProblem part_for(KernelFunction<DecodedParams>, const Problem& problem) {
  return decoded_problem(problem);
}

void launch_decoded(int config, const Problem& problem, cudaStream_t stream) {
  visit_below<int, kDecodedConfigCount>(config, [&](auto index) {
    visit<16, 8, 4>(bits_of_element(problem.a.dtype), [&](auto bits_a) {
      visit<8, 4>(bits_of_element(problem.b.dtype), [&](auto bits_b) {
        using Kernel = DecodedKernel<kDecodedConfigs[decltype(index)::value].tile, decltype(bits_a)::value,
                                     decltype(bits_b)::value>;
        launch<&gemm_decoded<Kernel>, Kernel>(problem, stream);
      });
    });
  });
}

}  // namespace tileon::sm80
