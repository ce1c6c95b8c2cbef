// What a kernel knows of its product, as one of its parameters: the part of a Problem that it reads, in a layout of its
// own. A Problem may grow; what lies in the constant memory of a kernel stays as it is.
#pragma once

#include "core/problem.h"

namespace tileon {

// Of operands without scales.
struct KernelProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;  // of both operands; of a where both are fp8
  DType b_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  bool allow_tf32 = false;
  bool fast_accum = false;
  Matrix a;
  Matrix b;
  Output out;
  Epilogue epilogue;
  void* pre_activation = nullptr;
  DeviceFlag device_flag;
};

// Of one operand with block scales: rows of k elements. Strides are in bytes.
struct ScaledKernelOperand {
  const void* data = nullptr;
  int64_t stride_row = 0;
  int64_t stride_k = 0;  // from byte to byte: of e2m1, from pair to pair
  DType dtype = DType::kFloat8E4M3;
  const void* scale = nullptr;
  ScaleStrides scale_strides{};
};

struct ScaledKernelProblem {
  static constexpr int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  ScaleType scale_type = ScaleType::kE8M0;
  int vec = 32;
  DType out_dtype = DType::kFloat16;
  bool fast_accum = false;
  ScaledKernelOperand a;
  ScaledKernelOperand b;
  PreparedWeight prepared_b;
  Output out;
  Epilogue epilogue;
  const float* global_scale = nullptr;
  DeviceFlag device_flag;
};

inline KernelProblem kernel_problem(const Problem& problem) {
  return {problem.batch,      problem.m,
          problem.n,          problem.k,
          problem.a.dtype,    problem.b.dtype,
          problem.out_dtype,  problem.allow_tf32,
          problem.fast_accum, problem.a,
          problem.b,          problem.out,
          problem.epilogue,   problem.pre_activation,
          problem.device_flag};
}

inline ScaledKernelOperand scaled_kernel_operand(const Operand& operand) {
  return {operand.data, operand.stride_mn, operand.stride_k, operand.dtype, operand.scale.data, operand.scale.strides};
}

inline ScaledKernelProblem scaled_kernel_problem(const Problem& problem) {
  return {problem.m,
          problem.n,
          problem.k,
          problem.b.scale.type,
          problem.b.scale.vec,
          problem.out_dtype,
          problem.fast_accum,
          scaled_kernel_operand(problem.a),
          scaled_kernel_operand(problem.b),
          problem.prepared_b,
          problem.out,
          problem.epilogue,
          problem.global_scale,
          problem.device_flag};
}

}  // namespace tileon
