// The ops by which Python's tuner names problems and sets the rows that compute them.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>

#include "checks/products.h"
#include "entry/registration.h"
#include "tuning/problem_key.h"
#include "tuning/tuned_configs.h"

namespace tileon {
namespace {

std::string matmul_problem(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                           const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                           bool allow_tf32, bool fast_accum) {
  return fresh_problem_text(
      check_matmul(matmul_arguments(a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum)));
}

std::string block_scaled_matmul_problem(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                        const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                        const std::string& activation, double slope,
                                        std::optional<ScalarType> out_dtype, bool fast_accum) {
  return fresh_problem_text(check_block_scaled(
      block_scaled_arguments(a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum)));
}

int device_index(const char* op, int64_t device) {
  if (device < 0 || device >= kMaxDevices)
    fail(op, ": `device` must be at least 0 and below ", kMaxDevices, ", got ", device);
  return static_cast<int>(device);
}

void set_row(int64_t device, const std::string& problem, const std::string& row) {
  set_tuned_row(device_index("_set_tuned_row", device), problem, row);
}

std::string row_of(int64_t device, const std::string& problem) {
  const char* row = tuned_row(device_index("_tuned_row", device), problem);
  return row == nullptr ? "" : row;
}

void announce(bool loads, bool tunes) {
  announced_tuner.loads = loads;
  announced_tuner.tunes = tunes;
}

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CompositeExplicitAutograd, m) {
  m.impl("_matmul_problem", TORCH_BOX(&tileon::matmul_problem));
  m.impl("_block_scaled_matmul_problem", TORCH_BOX(&tileon::block_scaled_matmul_problem));
  m.impl("_set_tuned_row", TORCH_BOX(&tileon::set_row));
  m.impl("_tuned_row", TORCH_BOX(&tileon::row_of));
  m.impl("_clear_tuned_rows", TORCH_BOX(&tileon::clear_tuned_rows));
  m.impl("_announce_tuner", TORCH_BOX(&tileon::announce));
}
