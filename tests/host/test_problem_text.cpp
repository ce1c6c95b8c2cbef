// The name of a problem: the same for problems that run alike, and another wherever something decides the speed.
#include <cstdio>
#include <string>

#include "tuning/problem_key.h"

namespace {

using namespace tileon;

alignas(16) char memory[64];

Problem dense() {
  Problem problem;
  problem.m = 64, problem.n = 96, problem.k = 128;
  problem.a.dtype = problem.b.dtype = problem.out_dtype = DType::kBFloat16;
  static_cast<Matrix&>(problem.a) = {memory, 128, 1, 0};
  static_cast<Matrix&>(problem.b) = {memory, 1, 96, 0};
  problem.out = {memory, 96, 1, 0};
  return problem;
}

int expect(const std::string& found, const std::string& wanted) {
  if (found == wanted) return 0;
  std::printf("found  %s\nwanted %s\n", found.c_str(), wanted.c_str());
  return 1;
}

int check_dense() {
  int failures = expect(problem_text(dense()), "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=rows plain");
  Problem problem = dense();
  problem.a.data = memory + 2;
  problem.b.stride_k = 97;
  problem.out.stride_m = 97;
  failures += expect(problem_text(problem),
                     "matmul bfloat16->bfloat16 1x64x96x128 a=k,unaligned b=mn,unaligned out=rows,unaligned plain");
  problem = dense();
  problem.batch = 3;
  problem.a.stride_batch = 64 * 128;
  problem.a.stride_k = 2;
  problem.out = {memory, 1, 64, 64 * 96};
  problem.epilogue.activation = Activation::kSilu;
  failures +=
      expect(problem_text(problem), "matmul bfloat16->bfloat16 3x64x96x128 a=gathered b=mn,shared out=columns costly");
  problem = dense();
  problem.out = {memory, 1, 65, 0};
  failures +=
      expect(problem_text(problem), "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=columns,unaligned plain");
  problem.out = {memory, 2, 200, 0};
  failures += expect(problem_text(problem), "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=other plain");
  problem = dense();
  problem.m = 1;  // its stride is never used
  problem.a.stride_mn = 7;
  problem.out.stride_m = 7;
  problem.epilogue.activation = Activation::kLeakyRelu;
  failures += expect(problem_text(problem), "matmul bfloat16->bfloat16 1x1x96x128 a=k b=mn out=rows plain");
  problem.epilogue.slope = 1.5;  // no kernel has it as cheap
  failures += expect(problem_text(problem), "matmul bfloat16->bfloat16 1x1x96x128 a=k b=mn out=rows costly");
  problem = dense();
  problem.epilogue.activation = Activation::kRelu;
  problem.pre_activation = memory;
  failures += expect(problem_text(problem), "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=rows plain,kept");
  problem = dense();
  problem.a.dtype = DType::kFloat8E4M3, problem.b.dtype = DType::kFloat8E5M2, problem.fast_accum = true;
  static_cast<Matrix&>(problem.b) = {memory, 128, 1, 0};
  failures += expect(problem_text(problem),
                     "matmul float8_e4m3fn*float8_e5m2->bfloat16 fast 1x64x96x128 a=k b=k out=rows plain");
  problem = dense();
  problem.a.dtype = problem.b.dtype = problem.out_dtype = DType::kFloat32;
  problem.fast_accum = true;  // not read of float32
  failures += expect(problem_text(problem), "matmul float32->float32 1x64x96x128 a=k b=mn out=rows plain");
  problem.allow_tf32 = true;
  failures += expect(problem_text(problem), "matmul tf32->float32 1x64x96x128 a=k b=mn out=rows plain");
  return failures;
}

int check_block_scaled() {
  Problem problem;
  problem.m = 64, problem.n = 96, problem.k = 128;
  problem.a.dtype = problem.b.dtype = DType::kFloat4E2M1;
  problem.a.scale.vec = problem.b.scale.vec = 32;
  problem.out_dtype = DType::kFloat16;
  problem.a.scale.strides = problem.b.scale.strides = packed_scales(4);
  problem.out = {memory, 96, 1, 0};
  int failures =
      expect(problem_text(problem), "block_scaled_matmul mxfp4->float16 64x96x128 scales=packed out=rows plain");
  problem.b.scale.strides = flat_scales(4, 1);
  problem.b.dtype = DType::kFloat8E4M3;
  problem.fast_accum = true;
  problem.prepared_b = {memory, PreparedForm::kBFloat16};
  failures += expect(problem_text(problem),
                     "block_scaled_matmul mixed->float16 fast 64x96x128 prepared=bfloat16 scales=other out=rows plain");
  return failures;
}

}  // namespace

int main() { return check_dense() + check_block_scaled(); }
