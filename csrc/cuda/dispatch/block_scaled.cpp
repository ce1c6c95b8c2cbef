// block_scaled_matmul on CUDA tensors: which kernel takes a call, and what is copied first. Weights that are prepared
// beforehand.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "checks/block_scaled.h"
#include "checks/prepared.h"
#include "cuda/dispatch/device.h"
#include "cuda/dispatch/memory.h"
#include "cuda/dispatch/scaled_mm.h"
#include "cuda/dispatch/tuned.h"
#include "cuda/sm80/sm80.h"
#include "entry/registration.h"
#include "tuning/kernel_log.h"
#ifdef TILEON_WITH_SM90
#include "cuda/sm90/sm90.h"
#endif

namespace tileon {
namespace {

using block_scaled::kOp;

// Bytes from row to row of a copy of an operand's codes, and of all of it: rows are contiguous, at multiples of 16
// bytes.
int64_t pitch_of_copy(const Tensor& codes) { return (codes.size(1) + 15) / 16 * 16; }
int64_t bytes_of_copy(const Tensor& codes) { return codes.size(0) * pitch_of_copy(codes); }

// Copies an operand's codes and has the problem read the copy. It is made of bytes: torch has no kernels that copy fp4.
void copy_codes(BlockScaledOperand& operand, const Tensor& codes, const Tensor& memory) {
  const int64_t strides[] = {pitch_of_copy(codes), 1};
  const Tensor bytes =
      torch::stable::from_blob(codes.data_ptr(), codes.sizes(), codes.strides(), codes.device(), ScalarType::Byte);
  Tensor target =
      torch::stable::from_blob(memory.data_ptr(), codes.sizes(), {strides, 2}, codes.device(), ScalarType::Byte);
  torch::stable::copy_(target, bytes);
  operand.data = memory.data_ptr();
  operand.stride_row = strides[0];
  operand.stride_k = 1;
}

#ifdef TILEON_WITH_SM90
// Hopper's rows come first in the table.
int hopper_config_count() { return sm90::block_scaled_config_count(); }

// Runs row `row` of Hopper's, and behind it the portable kernels, which leave at once unless the data need them.
void run_on_hopper(int row, const BlockScaledProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  BlockScaledProblem again = problem;
  again.device_flag = sm90::run(row, problem, gpu, scratch, stream);
  if (again.device_flag.words != nullptr) sm80::run(sm80::choose_config(again, gpu), again, stream);
}
#else
int hopper_config_count() { return 0; }
#endif

// A row of the table: Hopper's, or the portable one of that number.
struct TableConfig {
  bool is_hopper;
  int row;
};

const char* name_of(const TableConfig& row) {
#ifdef TILEON_WITH_SM90
  if (row.is_hopper) return sm90::block_scaled_config_name(row.row);
#endif
  return sm80::block_scaled_config_name(row.row);
}

const char* why_not(const TableConfig& row, const BlockScaledProblem& problem, const Gpu& gpu) {
#ifdef TILEON_WITH_SM90
  if (row.is_hopper) return sm90::why_not(row.row, problem, gpu);
#endif
  return sm80::why_not(row.row, problem, gpu);
}

bool keeps_accuracy(const TableConfig& row, const BlockScaledProblem& problem) {
#ifdef TILEON_WITH_SM90
  if (row.is_hopper) return sm90::keeps_accuracy(row.row, problem);
#endif
  return true;
}

int64_t scratch_bytes(const TableConfig& row, const BlockScaledProblem& problem) {
#ifdef TILEON_WITH_SM90
  if (row.is_hopper) return sm90::scratch_bytes(row.row, problem);
#endif
  return 0;
}

int config_count() { return hopper_config_count() + sm80::block_scaled_config_count(); }

TableConfig row_at(int index) {
  const bool is_hopper = index < hopper_config_count();
  return {is_hopper, index - (is_hopper ? 0 : hopper_config_count())};
}

TableConfig row_by_index(int64_t config, const BlockScaledProblem& problem, const Gpu& gpu) {
  if (config >= config_count())
    fail(kOp, ": `config` must be below ", config_count(), ", the rows of the tile table here, got ", config);
  const TableConfig row = row_at(static_cast<int>(config));
  const char* reason = why_not(row, problem, gpu);
  if (reason != nullptr) fail(kOp, ": `config` ", config, " (", name_of(row), ") cannot run these operands: ", reason);
  return row;
}

// Whether the library may choose the row for the problem.
bool is_candidate(const TableConfig& row, const BlockScaledProblem& problem, const Gpu& gpu) {
  if (row.is_hopper && (!may_choose_hopper() || problem.k == 0)) return false;
  return why_not(row, problem, gpu) == nullptr && keeps_accuracy(row, problem);
}

// The row that was measured to be the fastest, where that is known and may be chosen.
std::optional<TableConfig> measured_row(const BlockScaledProblem& problem, const BlockScaledArguments& arguments,
                                        int device, const Gpu& gpu, cudaStream_t stream) {
  const bool can_measure = problem.prepared_b.data == nullptr;
  const char* name = name_of_measured_row(problem, arguments, device, stream, can_measure);
  for (int index = 0; name != nullptr && index < config_count(); ++index) {
    const TableConfig row = row_at(index);
    if (std::strcmp(name_of(row), name) == 0 && is_candidate(row, problem, gpu)) return row;
  }
  return std::nullopt;
}

TableConfig choose_config(const BlockScaledProblem& problem, const Gpu& gpu) {
#ifdef TILEON_WITH_SM90
  const int row = may_choose_hopper() ? sm90::choose_config(problem, gpu) : -1;
  if (row >= 0) return {true, row};
#endif
  return {false, sm80::choose_config(problem, gpu)};
}

// A way of computing a product. Every row reads the operands as sm80::reads says: others are copied for each of them.
struct Way {
  TableConfig row;
  MemoryNeeds memory;

  MemoryNeeds needs() const { return memory; }
};

Way way_of(const TableConfig& row, const BlockScaledProblem& problem, const BlockScaledArguments& arguments) {
  const bool reads_a = sm80::reads(problem.a, problem.m, problem), reads_b = sm80::reads(problem.b, problem.n, problem);
  return {row,
          {reads_a ? 0 : bytes_of_copy(arguments.a), reads_b ? 0 : bytes_of_copy(arguments.b),
           scratch_bytes(row, problem)}};
}

// Runs `row`, or where it may be another one and its memory does not fit, a portable one, which needs no scratch.
void run_row(TableConfig row, bool may_be_another, BlockScaledProblem problem, const BlockScaledArguments& arguments,
             const Gpu& gpu, cudaStream_t stream) {
  std::vector<Way> ways{way_of(row, problem, arguments)};
  Memory memory;
  int chosen = 0;
  if (!ways[0].needs().none()) {
    if (may_be_another && row.is_hopper)
      ways.push_back(way_of({false, sm80::choose_config(problem, gpu)}, problem, arguments));
    chosen = fit(kOp, ways, arguments.a, memory);
  }
  row = ways[chosen].row;
  if (memory.copy_of_a) copy_codes(problem.a, arguments.a, *memory.copy_of_a);
  if (memory.copy_of_b) copy_codes(problem.b, arguments.b, *memory.copy_of_b);
#ifdef TILEON_WITH_SM90
  if (row.is_hopper) run_on_hopper(row.row, problem, gpu, memory.scratch_pointer(), stream);
#endif
  if (!row.is_hopper) sm80::run(row.row, problem, stream);
  record_kernel(name_of(row), {memory.copy_of_a.has_value(), memory.copy_of_b.has_value(), chosen > 0});
}

// Runs row `config` of the table, or what the library chooses where it is negative. `problem` is complete but for
// `out`.
void run_block_scaled(BlockScaledProblem& problem, const BlockScaledArguments& arguments, const Tensor& out,
                      int64_t config) {
  problem.out = output_of(out);
  if (problem.m == 0 || problem.n == 0) return;
  const int device = arguments.a.get_device_index();
  const CurrentDevice current_device(device);
  const Gpu& gpu = gpu_of(kOp, device);
  if (gpu.capability < 80)
    fail(kOp, ": needs a GPU of compute capability 8.0 or newer, got ", gpu.capability / 10, ".", gpu.capability % 10);
  const cudaStream_t stream = current_stream(kOp, device);
  std::optional<TableConfig> measured;
  if (config < 0) measured = measured_row(problem, arguments, device, gpu, stream);
  if (config < 0 && !measured && has_block_scaled_tensor_cores(gpu.capability) && scaled_mm_takes(problem)) {
    run_scaled_mm(problem, arguments, out);
    record_kernel("torch_scaled_mm");
    return log_call(problem);
  }
  const TableConfig row = config >= 0 ? row_by_index(config, problem, gpu)
                          : measured  ? *measured
                                      : choose_config(problem, gpu);
  run_row(row, config < 0, problem, arguments, gpu, stream);
  log_call(problem);
}

Tensor block_scaled_matmul(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                           const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                           const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                           bool fast_accum) {
  const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                       activation, slope, out_dtype, fast_accum};
  BlockScaledProblem problem = check_block_scaled(arguments);
  const Tensor out = new_output(problem, arguments);
  run_block_scaled(problem, arguments, out, -1);
  return out;
}

void block_scaled_matmul_out(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                             const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                             const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                             bool fast_accum, Tensor out) {
  const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                       activation, slope, out_dtype, fast_accum};
  BlockScaledProblem problem = check_block_scaled(arguments);
  check_out(problem, arguments, out);
  run_block_scaled(problem, arguments, out, -1);
}

Tensor block_scaled_matmul_with_config(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                       const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                       int64_t config, const std::string& activation, double slope,
                                       std::optional<ScalarType> out_dtype) {
  const BlockScaledArguments arguments{a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, false};
  BlockScaledProblem problem = check_block_scaled(arguments);
  if (config < 0) fail(kOp, ": `config` must not be negative, got ", config);
  const Tensor out = new_output(problem, arguments);
  run_block_scaled(problem, arguments, out, config);
  return out;
}

Tensor block_scaled_matmul_prepared(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                    const Tensor& prepared_b, const std::optional<Tensor>& bias,
                                    const std::optional<Tensor>& global_scale, const std::string& activation,
                                    double slope, std::optional<ScalarType> out_dtype, bool fast_accum) {
  const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                       activation, slope, out_dtype, fast_accum};
  BlockScaledProblem problem = check_block_scaled(arguments);
  problem.prepared_b = check_prepared(problem, a, prepared_b);
  const Tensor out = new_output(problem, arguments);
  run_block_scaled(problem, arguments, out, -1);
  return out;
}

// Of a weight that Hopper's kernels multiply.
Tensor prepare_block_scaled(const Tensor& b, const Tensor& scale_b, const std::string& form) {
  auto [problem, prepared_form] = check_prepare(b, scale_b, form);
  constexpr const char* kPrepare = "_prepare_block_scaled";
  const CurrentDevice current_device(b.get_device_index());
  const Gpu& gpu = gpu_of(kPrepare, b.get_device_index());
#ifdef TILEON_WITH_SM90
  if (const char* reason = sm90::why_not_prepare_weight(problem, gpu); reason != nullptr)
    fail(kPrepare, ": cannot prepare `b`: ", reason);
  const int64_t bytes = PreparedLayout(prepared_form, problem.n, problem.k).bytes;
  const auto bytes_on_device = [&](int64_t count) { return allocate(kPrepare, b, {1, {count}}, ScalarType::Byte); };
  const Tensor prepared = bytes_on_device(bytes);
  const Tensor scratch = bytes_on_device(sm90::prepare_weight_scratch_bytes(problem));
  std::optional<Tensor> copy;
  if (!sm80::reads(problem.b, problem.n, problem)) {
    copy = bytes_on_device(bytes_of_copy(b));
    copy_codes(problem.b, b, *copy);
  }
  sm90::prepare_weight(problem, {prepared.data_ptr(), prepared_form}, scratch.data_ptr(),
                       current_stream(kPrepare, b.get_device_index()));
  return prepared;
#else
  fail(kPrepare, ": cannot prepare `b`: this library has no kernels for compute capability ", gpu.capability / 10, ".",
       gpu.capability % 10);
#endif
}

std::string block_scaled_candidates(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                    const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                    const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                                    bool fast_accum) {
  const BlockScaledProblem problem =
      check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum});
  const Gpu& gpu = gpu_of(kOp, a.get_device_index());
  std::string candidates;
  for (int index = 0; index < config_count(); ++index)
    if (const TableConfig row = row_at(index); is_candidate(row, problem, gpu))
      candidates += std::to_string(index) + " " + name_of(row) + "\n";
  return candidates;
}

}  // namespace

std::string block_scaled_configs() {
  std::string table;
#ifdef TILEON_WITH_SM90
  for (int row = 0; row < sm90::block_scaled_config_count(); ++row)
    table += std::to_string(row) + " " + sm90::block_scaled_config_name(row) + " " +
             sm90::block_scaled_config_formats(row) + "\n";
#endif
  for (int row = 0; row < sm80::block_scaled_config_count(); ++row)
    table += std::to_string(hopper_config_count() + row) + " " + sm80::block_scaled_config_name(row) +
             " mxfp8,mxfp4,mixed,nvfp4\n";
  return table;
}

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  m.impl("block_scaled_matmul", TORCH_BOX(&tileon::block_scaled_matmul));
  m.impl("block_scaled_matmul.out", TORCH_BOX(&tileon::block_scaled_matmul_out));
  m.impl("_block_scaled_matmul_with_config", TORCH_BOX(&tileon::block_scaled_matmul_with_config));
  m.impl("_block_scaled_matmul_candidates", TORCH_BOX(&tileon::block_scaled_candidates));
  m.impl("_prepare_block_scaled", TORCH_BOX(&tileon::prepare_block_scaled));
  m.impl("_block_scaled_matmul_prepared", TORCH_BOX(&tileon::block_scaled_matmul_prepared));
}
