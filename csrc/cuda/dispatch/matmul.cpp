// The ops on CUDA tensors: which backend takes a call, on which device and stream, and what is copied first.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "checks/matmul.h"
#include "cuda/dispatch/aligned_copy.h"
#include "cuda/dispatch/device.h"
#include "cuda/dispatch/memory.h"
#include "cuda/dispatch/tuned.h"
#include "cuda/sm80/sm80.h"
#include "entry/registration.h"
#include "tuning/kernel_log.h"
#ifdef TILEON_WITH_SM90
#include "cuda/sm90/sm90.h"
#endif

namespace tileon {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// What dispatch knows of a folder of kernels. Rows of the tile table are numbered through all backends, in order.
struct Backend {
  int min_capability;  // major * 10 + minor
  int max_capability;
  int (*config_count)();
  const char* (*config_name)(int row);
  std::string (*config_dtypes)(int row);
  const char* (*why_not)(int row, const GemmProblem&, const Gpu&);
  bool (*keeps_accuracy)(int row, const GemmProblem&);   // null where every row does
  int (*choose_config)(const GemmProblem&, const Gpu&);  // negative where no row takes the problem
  bool (*wants_copy)(const Operand&, int64_t mn, const GemmProblem&, const Gpu&);
  bool (*wants_widening)(const GemmProblem&, const Gpu&);  // null where no row takes fp8
  int64_t (*scratch_bytes)(int row, const GemmProblem&);
  DeviceFlag (*run)(int row, const GemmProblem&, const Gpu&, void* scratch, cudaStream_t);

  bool is_for(const Gpu& gpu) const {
    return gpu.capability >= min_capability && gpu.capability <= max_capability &&
           (max_capability != 90 || may_choose_hopper());
  }
};

// A call goes to the first one that is for the GPU and takes the problem. The portable kernels take every one.
constexpr Backend kBackends[] = {
#ifdef TILEON_WITH_SM90
    {90, 90, sm90::config_count, sm90::config_name, sm90::config_dtypes, sm90::why_not, sm90::keeps_accuracy,
     sm90::choose_config, sm90::wants_copy, nullptr, sm90::scratch_bytes, sm90::run},
#endif
    {80, 999, sm80::config_count, sm80::config_name, sm80::config_dtypes, sm80::why_not, nullptr, sm80::choose_config,
     sm80::wants_copy, sm80::wants_widening, sm80::scratch_bytes, sm80::run},
};

// One row of the tile table.
struct TableConfig {
  const Backend* backend = nullptr;
  int row = -1;  // the backend's own number

  const char* name() const { return backend->config_name(row); }
};

int config_count() {
  int count = 0;
  for (const Backend& backend : kBackends) count += backend.config_count();
  return count;
}

// Row `config` of the table, which must be able to run the problem.
TableConfig row_by_index(int64_t config, const GemmProblem& problem, const Gpu& gpu) {
  if (config >= config_count())
    fail("matmul: `config` must be below ", config_count(), ", the rows of the tile table here, got ", config);
  int row = static_cast<int>(config);
  const Backend* backend = kBackends;
  while (row >= backend->config_count()) row -= (backend++)->config_count();
  const char* reason = backend->why_not(row, problem, gpu);
  if (reason != nullptr)
    fail("matmul: `config` ", config, " (", backend->config_name(row), ", ", backend->config_dtypes(row),
         ") cannot run these operands: ", reason);
  return {backend, row};
}

// Whether the library may choose the row for the problem as its operands lie.
bool is_candidate(const Backend& backend, int row, const GemmProblem& problem, const Gpu& gpu) {
  return backend.is_for(gpu) && backend.why_not(row, problem, gpu) == nullptr &&
         (backend.keeps_accuracy == nullptr || backend.keeps_accuracy(row, problem));
}

// The row of this name, if it may be chosen.
std::optional<TableConfig> candidate(const char* name, const GemmProblem& problem, const Gpu& gpu) {
  for (const Backend& backend : kBackends)
    for (int row = 0; row < backend.config_count(); ++row)
      if (std::strcmp(backend.config_name(row), name) == 0 && is_candidate(backend, row, problem, gpu))
        return TableConfig{&backend, row};
  return std::nullopt;
}

// A way of computing a product: a row, the problem as that row reads it, and what has to be there first.
struct Way {
  TableConfig row;
  GemmProblem problem;
  std::optional<AlignedCopy> a, b;

  MemoryNeeds needs() const {
    return {a ? a->bytes() : 0, b ? b->bytes() : 0, row.backend->scratch_bytes(row.row, problem)};
  }
};

void plan_copy_of_a(Way& way, DType dtype) {
  way.a.emplace(way.problem.a, way.problem.batch, way.problem.m, way.problem.k, dtype);
  way.problem.a = way.a->at(kNoMemoryYet);
  way.problem.dtype = dtype;
}

void plan_copy_of_b(Way& way, DType dtype) {
  way.b.emplace(way.problem.b, way.problem.batch, way.problem.n, way.problem.k, dtype);
  way.problem.b = way.b->at(kNoMemoryYet);
  way.problem.b_dtype = dtype;
}

// The row that the first willing backend chooses, after copies where they pay: of an operand as it is where the kernels
// cannot read it well, of both fp8 operands as float16 where they cannot read one of them well.
Way fastest_way(Way way, const Gpu& gpu) {
  GemmProblem& problem = way.problem;
  const auto copies_pay = [&] { return sm80::pays_for_copies(problem, gpu); };  // asked where a copy is wanted alone
  for (const Backend& backend : kBackends) {
    if (!backend.is_for(gpu)) continue;
    if (backend.wants_widening != nullptr && backend.wants_widening(problem, gpu) && copies_pay()) {
      plan_copy_of_a(way, DType::kFloat16);
      plan_copy_of_b(way, DType::kFloat16);
      return fastest_way(way, gpu);  // from the first backend on: they may take float16
    }
    if (!way.a && backend.wants_copy(problem.a, problem.m, problem, gpu) && copies_pay())
      plan_copy_of_a(way, problem.dtype);
    if (!way.b && backend.wants_copy(problem.b, problem.n, problem, gpu) && copies_pay())
      plan_copy_of_b(way, problem.b_dtype);
    way.row = {&backend, backend.choose_config(problem, gpu)};
    if (way.row.row >= 0) return way;
  }
  fail("matmul: needs a GPU of compute capability 8.0 or newer, got ", gpu.capability / 10, ".", gpu.capability % 10);
}

// The row that is expected to be fastest of those that read the operands where they are and need no memory besides.
Way way_without_memory(const GemmProblem& problem, const Gpu& gpu) {
  for (const Backend& backend : kBackends) {
    if (!backend.is_for(gpu)) continue;
    const int row = backend.choose_config(problem, gpu);
    if (row >= 0 && backend.scratch_bytes(row, problem) == 0) return {TableConfig{&backend, row}, problem, {}, {}};
  }
  fail("matmul: needs a GPU of compute capability 8.0 or newer, got ", gpu.capability / 10, ".", gpu.capability % 10);
}

// The row that was measured to be the fastest, where that is known and may be chosen.
std::optional<TableConfig> measured_row(const GemmProblem& problem, const MatmulArguments& arguments, int device,
                                        const Gpu& gpu, cudaStream_t stream) {
  const bool can_measure = problem.pre_activation == nullptr;
  const char* name = name_of_measured_row(problem, arguments, device, stream, can_measure);
  return name == nullptr ? std::nullopt : candidate(name, problem, gpu);
}

// Fills a copy, of which there is now memory, with the operand; one matrix of a shared batch stands for all.
void fill(const AlignedCopy& copy, Tensor& memory, const Tensor& operand, int mn_dim) {
  const int64_t dims = operand.dim();
  const bool shared = dims == 3 && copy.batch == 1 && operand.size(0) > 1;
  const Tensor source = shared ? torch::stable::narrow(const_cast<Tensor&>(operand), 0, 0, 1) : operand;
  const Operand place = copy.at(memory.mutable_data_ptr());
  int64_t strides[3] = {copy.outer() * copy.pitch, 0, 0};
  strides[1 + mn_dim] = place.stride_mn;
  strides[2 - mn_dim] = place.stride_k;
  Tensor target = torch::stable::from_blob(memory.mutable_data_ptr(), source.sizes(),
                                           {strides + 3 - dims, static_cast<size_t>(dims)}, operand.device(),
                                           scalar_type(copy.dtype));
  torch::stable::copy_(target, source);
}

// Runs a row, and behind it, where the data may need them, the portable kernels, which leave at once if not.
void run_row(const TableConfig& row, const GemmProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  GemmProblem again = problem;
  again.device_flag = row.backend->run(row.row, problem, gpu, scratch, stream);
  if (again.device_flag.words != nullptr) sm80::run(sm80::choose_config(again, gpu), again, gpu, nullptr, stream);
}

// By row `config` of the table where it is not negative, else by the row that was measured or that the library chooses.
Way way_to_run(const GemmProblem& problem, const MatmulArguments& arguments, int64_t config, int device, const Gpu& gpu,
               cudaStream_t stream) {
  if (config >= 0) return {row_by_index(config, problem, gpu), problem, {}, {}};
  const std::optional<TableConfig> measured = measured_row(problem, arguments, device, gpu, stream);
  return measured ? Way{*measured, problem, {}, {}} : fastest_way({{}, problem, {}, {}}, gpu);
}

// Runs row `config` of the table, or the row of the library's choice where it is negative, whose memory may not fit:
// then a row that needs none. `problem` is complete.
void run_matmul(const GemmProblem& problem, const MatmulArguments& arguments, int64_t config) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  const int device = arguments.a.get_device_index();
  const CurrentDevice current_device(device);
  const Gpu& gpu = gpu_of("matmul", device);
  const cudaStream_t stream = current_stream("matmul", device);
  Way way = way_to_run(problem, arguments, config, device, gpu, stream);
  Memory memory;
  bool short_of_memory = false;
  if (!way.needs().none()) {
    std::vector<Way> ways{way};
    if (config < 0) ways.push_back(way_without_memory(problem, gpu));
    const int chosen = fit("matmul", ways, arguments.a, memory);
    way = ways[chosen];
    short_of_memory = chosen > 0;
  }
  if (way.a) {
    fill(*way.a, *memory.copy_of_a, arguments.a, 0);
    way.problem.a = way.a->at(memory.copy_of_a->mutable_data_ptr());
  }
  if (way.b) {
    fill(*way.b, *memory.copy_of_b, arguments.b, 1);
    way.problem.b = way.b->at(memory.copy_of_b->mutable_data_ptr());
  }
  run_row(way.row, way.problem, gpu, memory.scratch_pointer(), stream);
  record_kernel(way.row.name(), {way.a.has_value(), way.b.has_value(), short_of_memory});
  log_call(problem);
}

Tensor matmul(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
              double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
  GemmProblem problem = check_matmul(arguments);
  Tensor out = new_output(problem, arguments);
  problem.out = output_of(out);
  run_matmul(problem, arguments, -1);
  return out;
}

void matmul_out(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
                double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum, Tensor out) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
  GemmProblem problem = check_matmul(arguments);
  check_out(problem, arguments, out);
  problem.out = output_of(out);
  run_matmul(problem, arguments, -1);
}

std::tuple<Tensor, Tensor> matmul_with_preactivation(const Tensor& a, const Tensor& b,
                                                     const std::optional<Tensor>& bias, const std::string& activation,
                                                     double slope, std::optional<ScalarType> out_dtype,
                                                     bool allow_tf32) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, false};
  GemmProblem problem = check_matmul_with_preactivation(arguments);
  Tensor out = new_output(problem, arguments);
  Tensor pre_activation = new_output(problem, arguments);
  problem.out = output_of(out);
  problem.pre_activation = pre_activation.mutable_data_ptr();
  run_matmul(problem, arguments, -1);
  return {out, pre_activation};
}

Tensor matmul_with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, int64_t config,
                          const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                          bool allow_tf32) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, false};
  GemmProblem problem = check_matmul(arguments);
  if (config < 0) fail("matmul: `config` must not be negative, got ", config);
  Tensor out = new_output(problem, arguments);
  problem.out = output_of(out);
  run_matmul(problem, arguments, config);
  return out;
}

std::string matmul_candidates(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                              const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                              bool allow_tf32, bool fast_accum) {
  const GemmProblem problem = check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum});
  const Gpu& gpu = gpu_of("matmul", a.get_device_index());
  std::string candidates;
  int index = 0;
  for (const Backend& backend : kBackends)
    for (int row = 0; row < backend.config_count(); ++row, ++index)
      if (is_candidate(backend, row, problem, gpu))
        candidates += std::to_string(index) + " " + backend.config_name(row) + "\n";
  return candidates;
}

}  // namespace

std::string matmul_configs() {
  std::string table;
  int index = 0;
  for (const Backend& backend : kBackends)
    for (int row = 0; row < backend.config_count(); ++row)
      table += std::to_string(index++) + " " + backend.config_name(row) + " " + backend.config_dtypes(row) + "\n";
  return table;
}

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  m.impl("matmul", TORCH_BOX(&tileon::matmul));
  m.impl("matmul.out", TORCH_BOX(&tileon::matmul_out));
  m.impl("_matmul_with_preactivation", TORCH_BOX(&tileon::matmul_with_preactivation));
  m.impl("_matmul_with_config", TORCH_BOX(&tileon::matmul_with_config));
  m.impl("_matmul_candidates", TORCH_BOX(&tileon::matmul_candidates));
}
