// What a kernel knows of its product, as one of its parameters: the part of a Problem that it reads, in a layout of its
// own. A Problem may grow; what lies in the constant memory of a kernel stays as it is.
#pragma once

#include "core/problem.h"

namespace tileon {

// A product of operands without scales.
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

// One operand with block scales: rows of k elements. Strides are in bytes.
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

inline KernelProblem kernel_problem(const Problem& of) {
  return {of.batch,      of.m, of.n, of.k,   of.a.dtype,  of.b.dtype,        of.out_dtype,  of.allow_tf32,
          of.fast_accum, of.a, of.b, of.out, of.epilogue, of.pre_activation, of.device_flag};
}

inline ScaledKernelOperand scaled_kernel_operand(const Operand& of) {
  return {of.data, of.stride_mn, of.stride_k, of.dtype, of.scale.data, of.scale.strides};
}

inline ScaledKernelProblem scaled_kernel_problem(const Problem& of) {
  const ScaledKernelOperand a = scaled_kernel_operand(of.a), b = scaled_kernel_operand(of.b);
  return {of.m, of.n, of.k,          of.b.scale.type, of.b.scale.vec, of.out_dtype,    of.fast_accum,
          a,    b,    of.prepared_b, of.out,          of.epilogue,    of.global_scale, of.device_flag};
}

}  // namespace tileon
