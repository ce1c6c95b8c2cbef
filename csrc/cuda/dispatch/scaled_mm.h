// torch's own scaled_mm as a backend of block-scaled products, with one config. Its SWIZZLE_32_4_4 layout of scales is
// our packed one.
#pragma once

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/ops.h>

#include <array>
#include <optional>

#include "checks/scaled_products.h"
#include "cuda/dispatch/scaled_mm_rules.h"
#include "cuda/runtime/backend.h"
#include "cuda/runtime/runtime.h"
#include "tuning/batch_invariance.h"

namespace tileon::scaled_mm {

inline int config_count() { return 1; }
inline const char* config_name(int) { return "torch_scaled_mm"; }
inline ConfigFields config_fields(int) { return {"mxfp8", "torch", "scaled_mm", "plain", 0, 0, 0}; }

inline const char* why_not(int, const Problem& problem, const Gpu& gpu) {
  if (!has_block_scaled_tensor_cores(gpu.capability)) return "it needs a GPU of compute capability 10.x";
  return scaled_mm_takes(problem) ? nullptr : "it takes mxfp8 alone, contiguous, in whole tiles, without an epilogue";
}

inline Choice choose_config(const Problem& problem, const Gpu& gpu) {
  if (is_batch_invariant.load(std::memory_order_relaxed)) return {};  // its sums' order is its own
  return {why_not(0, problem, gpu) == nullptr ? 0 : -1};
}

// A contiguous matrix at `data`, on the current device.
inline Tensor matrix_at(const void* data, int64_t rows, int64_t columns, ScalarType dtype) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  const std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  return torch::stable::from_blob(const_cast<void*>(data), {sizes.data(), 2}, {strides.data(), 2},
                                  torch::stable::Device(torch::headeronly::DeviceType::CUDA, device), dtype);
}

inline Tensor scales_at(const void* data, int64_t rows, int64_t k) {
  const int64_t cols = k / vec_of(ScaleType::kE8M0);
  return matrix_at(data, scale_row_blocks(rows), packed_scales(cols).row_block, ScalarType::Float8_e8m0fnu);
}

inline DeviceFlag run(int, const Problem& problem, const Gpu&, void*, cudaStream_t) {
  Tensor b = matrix_at(problem.b.data, problem.n, problem.k, ScalarType::Float8_e4m3fn);
  const ScalarType out_dtype = scalar_type(problem.out_dtype);
  std::array<StableIValue, 9> stack{from(matrix_at(problem.a.data, problem.m, problem.k, ScalarType::Float8_e4m3fn)),
                                    from(torch::stable::transpose(b, 0, 1)),
                                    from(scales_at(problem.a.scale.data, problem.m, problem.k)),
                                    from(scales_at(problem.b.scale.data, problem.n, problem.k)),
                                    from(std::optional<Tensor>()),  // bias
                                    from(std::optional<Tensor>()),  // scale_result
                                    from(std::optional<ScalarType>(out_dtype)),
                                    from(problem.fast_accum),
                                    from(matrix_at(problem.out.data, problem.m, problem.n, out_dtype))};
  if (torch_call_dispatcher("aten::_scaled_mm", "out", stack.data(), TORCH_ABI_VERSION) != 0)
    fail(block_scaled::kOp, ": torch's own scaled_mm failed");
  static_cast<void>(torch::stable::detail::to<Tensor>(stack[0]));  // takes the returned reference back
  return {};
}

inline constexpr Backend kBackend{100,           109,     config_count, config_name, config_fields, why_not, nullptr,
                                  choose_config, nullptr, nullptr,      run};

}  // namespace tileon::scaled_mm
