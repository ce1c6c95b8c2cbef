// The public surface: every op of the library by its schema. The CPU's kernels are in cpu/, the GPU's are registered in
// cuda/dispatch/; fake, autograd and autocast rules are Python's (tileon_ops/).
#include <algorithm>
#include <string>

#include "entry/registration.h"
#include "tuning/batch_invariance.h"
#include "tuning/kernel_log.h"

// setup.py hands these over as bare words: no quoting that a shell or ninja could break.
#define TILEON_TEXT_OF(...) #__VA_ARGS__
#define TILEON_TEXT(...) TILEON_TEXT_OF(__VA_ARGS__)
#ifndef TILEON_NVCC
#define TILEON_NVCC none
#endif
#ifndef TILEON_TARGETS
#define TILEON_TARGETS none
#endif

#ifdef TILEON_WATCHDOG
#define TILEON_WATCHDOG_TEXT "yes"
#else
#define TILEON_WATCHDOG_TEXT "no"
#endif

void tileon::define_ops(DefinedOps& m) {
  // activation(a @ b + bias); a is (m, k) or (batch, m, k), b is (k, n) or (batch, k, n), bias is (n,)
  const std::string of_matmul =
      "Tensor a, Tensor b, Tensor? bias=None, *, str activation=\"none\", float slope=0.01, "
      "ScalarType? out_dtype=None, bool allow_tf32=False, bool fast_accum=False";
  m.def_with_compiled("matmul", "(" + of_matmul + ") -> Tensor");
  m.def("matmul.out(" + of_matmul + ", Tensor(a!) out) -> ()");

  // for gradients (tileon_ops/_rules/autograd/): matmul's result, and the activation's argument, rounded as the result
  m.def_with_compiled("_matmul_with_preactivation",
                      "(Tensor a, Tensor b, Tensor? bias=None, *, str activation=\"none\", float slope=0.01, "
                      "ScalarType? out_dtype=None, bool allow_tf32=False) -> (Tensor, Tensor)");
  // grad activation'(z), and its sum over all rows, the gradient of the bias; saved is z, or y where that tells the
  // sign
  m.def_with_compiled("_epilogue_backward",
                      "(Tensor grad, Tensor? saved, *, str activation, float slope, ScalarType out_dtype, "
                      "ScalarType? bias_dtype=None) -> (Tensor, Tensor)");

  // grad @ b^T and a^T @ grad, laid out as a and b are, all 2-D: both products of a backward pass
  m.def("_matmul_backward(Tensor grad, Tensor a, Tensor b, *, bool allow_tf32=False) -> (Tensor, Tensor)");

  // for layers in training: activation(x @ weight^T + bias), and the gradients of x and weight by that of the sums; x
  // is (..., k), weight (n, k), grad (..., n), x and grad contiguous
  m.def(
      "_linear(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", float slope=0.01, "
      "bool allow_tf32=False) -> Tensor");
  m.def("_linear_backward(Tensor grad, Tensor x, Tensor weight, *, bool allow_tf32=False) -> (Tensor, Tensor)");

  // for gradients where `a` has no scale: (grad * global_scale) @ (b * scale_b), (m, n) of grad and (n, k) of b
  // (_rules/autograd/decoding.py)
  m.def("_block_scaled_backward(Tensor grad, Tensor b, Tensor scale_b, Tensor? global_scale=None) -> Tensor");

  // matmul by one config of the GPU's tables, for tests and sweeps; _matmul_configs: a line of fields each (backends.h)
  m.def(
      "_matmul_with_config(Tensor a, Tensor b, Tensor? bias=None, *, int config, str activation=\"none\", "
      "float slope=0.01, ScalarType? out_dtype=None, bool allow_tf32=False) -> Tensor");
  m.def("_matmul_configs() -> str");
  // "chosen name", then a line for each config that was weighed, with what the cost model expects of it
  m.def("_explain_matmul(Tensor a, Tensor b, int capability=90, int sm_count=132) -> str");

  // activation(global_scale * (a * scale_a) @ (b * scale_b)^T + bias); a is (m, k), b is (n, k), fp4 two in a byte; a
  // of 16 bits has no scale; scales of a byte are (rows, k / vec) or packed (formats.h), float32 ones of the whole
  // operand, of rows, or of blocks of 128 (checks/scales.h)
  const std::string of_block_scaled =
      "Tensor a, Tensor b, Tensor? scale_a, Tensor scale_b, Tensor? bias=None, Tensor? global_scale=None, *, "
      "str activation=\"none\", float slope=0.01, ScalarType? out_dtype=None, bool fast_accum=False";
  m.def_with_compiled("block_scaled_matmul", "(" + of_block_scaled + ") -> Tensor");
  m.def("block_scaled_matmul.out(" + of_block_scaled + ", Tensor(a!) out) -> ()");
  m.def(
      "_block_scaled_matmul_with_config(Tensor a, Tensor b, Tensor? scale_a, Tensor scale_b, Tensor? bias=None, "
      "Tensor? global_scale=None, *, int config, str activation=\"none\", float slope=0.01, "
      "ScalarType? out_dtype=None) -> Tensor");
  m.def("_block_scaled_matmul_configs() -> str");

  // for weights that are multiplied again and again: b as Hopper's kernels multiply it (problem.h), kept; the
  // result is block_scaled_matmul's
  m.def("_prepare_block_scaled(Tensor b, Tensor scale_b, *, str form) -> Tensor");
  m.def(
      "_block_scaled_matmul_prepared(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor prepared_b, "
      "Tensor? bias=None, Tensor? global_scale=None, *, str activation=\"none\", float slope=0.01, "
      "ScalarType? out_dtype=None, bool fast_accum=False) -> Tensor");

  // x is (rows, k); data is (rows, k) or, two in a byte, (rows, k / 2); scales come out packed
  m.def_with_compiled("quantize",
                      "(Tensor x, str format, Tensor? global_scale=None, *, str scale_rounding=\"floor\") -> "
                      "(Tensor, Tensor)");
  // for layers: x in nvfp4 with a global scale for each row, its own, and that times `global_scale`, (rows, 1)
  m.def_with_compiled("_quantize_nvfp4_rows", "(Tensor x, Tensor? global_scale=None) -> (Tensor, Tensor, Tensor)");
  // what the codes of quantize stand for, of nvfp4 those of _quantize_nvfp4_rows, in the dtype of x, 16 bits; and what
  // rows of nvfp4 are to be multiplied by, (rows, 1), else (0, 1). On a GPU alone
  m.def(
      "_round_to_format(Tensor x, str format, Tensor? global_scale=None, *, str scale_rounding=\"floor\") -> "
      "(Tensor, Tensor)");
  // for layers: block_scaled_matmul of what quantize, or _quantize_nvfp4_rows, makes of x, in the dtype of x
  m.def_with_compiled("_quantized_linear",
                      "(Tensor x, Tensor b, Tensor scale_b, str format, Tensor? bias=None, Tensor? global_scale=None, "
                      "*, str scale_rounding=\"floor\", str activation=\"none\", float slope=0.01, "
                      "bool fast_accum=False) -> Tensor");
  // whether it multiplies the numbers of _round_to_format on that GPU; `b` has packed scales
  m.def(
      "_multiplies_numbers(int device, int m, int n, int k, str format, str format_of_b, ScalarType dtype, "
      "bool fast_accum) -> bool");
  m.def(
      "dequantize(Tensor data, Tensor scale, str format, Tensor? global_scale=None, *, ScalarType? out_dtype=None) -> "
      "Tensor");
  m.def("pack_scales(Tensor scale) -> Tensor");
  m.def("unpack_scales(Tensor packed, SymInt rows, SymInt cols) -> Tensor");

  // for the tuner (tileon_ops/tune/): the text that names a problem (tuning/problem_key.h), the configs that the
  // library may choose for it ("index name", one a line), and the configs that it shall choose from now on
  // (tuning/tuned_configs.h)
  m.def("_matmul_problem(" + of_matmul + ") -> str");
  m.def("_matmul_candidates(" + of_matmul + ") -> str");
  m.def("_block_scaled_matmul_problem(" + of_block_scaled + ") -> str");
  m.def("_block_scaled_matmul_candidates(" + of_block_scaled + ") -> str");
  m.def("_set_tuned_config(int device, str problem, str config) -> ()");
  m.def("_tuned_config(int device, str problem) -> str");
  m.def("_clear_tuned_configs() -> ()");
  m.def("_announce_tuner(bool loads, bool tunes) -> ()");
  m.def("_set_batch_invariant(bool on) -> bool");  // returns what held before
  // the tuner's own, which cuda/dispatch/products.cpp calls
  m.def("_load_tuned_configs(int device) -> ()");
  m.def(
      "_tune_matmul(Tensor a, Tensor b, Tensor? bias, str activation, float slope, ScalarType? out_dtype, "
      "bool allow_tf32, bool fast_accum) -> ()");
  m.def(
      "_tune_block_scaled_matmul(Tensor a, Tensor b, Tensor? scale_a, Tensor scale_b, Tensor? bias, "
      "Tensor? global_scale, str activation, float slope, ScalarType? out_dtype, bool fast_accum) -> ()");

  // whether a recorded product on the CPU may go by torch's ops, which last_kernel() then says (autograd/of_torch.py)
  m.def("_begin_product_of_torch() -> bool");
  m.def("_is_product_of_aten(Tensor a, Tensor b) -> bool");  // on the CPU, of float32 and float64
  m.def("_last_kernel() -> str");                            // what this thread's last op ran
  m.def("_build_info() -> str");                             // "key: value", one a line
}

namespace tileon {

#ifdef TILEON_WITH_CUDA
std::string matmul_configs();  // cuda/dispatch/products.cpp
std::string block_scaled_configs();
#else
std::string matmul_configs() { return ""; }
std::string block_scaled_configs() { return ""; }
#endif

namespace {

// Not where sums must not hang on the number of rows, nor where the log has a line for each call.
bool begin_product_of_torch() {
  if (is_batch_invariant.load(std::memory_order_relaxed) || log_is_on()) return false;
  record_kernel("cpu_aten");
  return true;
}

std::string build_info() {
  std::string targets = TILEON_TEXT(TILEON_TARGETS);  // separated by commas
  std::replace(targets.begin(), targets.end(), ',', ' ');
  return "version: " TILEON_TEXT(TILEON_VERSION) "\ncuda: " TILEON_TEXT(TILEON_NVCC) "\narchs: " + targets +
         "\ntorch: " TILEON_TEXT(TILEON_TORCH) "\ntarget: 2.11\nwatchdog: " TILEON_WATCHDOG_TEXT "\n";
}

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CompositeExplicitAutograd, m) {
  m.impl("_matmul_configs", TORCH_BOX(&tileon::matmul_configs));
  m.impl("_block_scaled_matmul_configs", TORCH_BOX(&tileon::block_scaled_configs));
  m.impl("_begin_product_of_torch", TORCH_BOX(&tileon::begin_product_of_torch));
  m.impl("_last_kernel", TORCH_BOX(&tileon::last_kernel));
  m.impl("_build_info", TORCH_BOX(&tileon::build_info));
}
