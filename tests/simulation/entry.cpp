// What Python calls: a problem on given pointers by row `row` of a table, in a schedule. Python has the library's own
// structs of problems once more.
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "guarded.h"
#include "runtime.h"
#include "state.h"

using namespace tileon;

namespace {

enum Table { kPortable, kHopper, kPortableBlockScaled, kHopperBlockScaled, kElementwise };
const char* const kElementwiseRows[] = {"quantize",     "dequantize",        "scale_pack",
                                        "operand_copy", "epilogue_backward", "quantize_nvfp4_rows"};

std::string text;  // what the last call returned

const char* keep(const std::string& what) {
  text = what;
  return text.c_str();
}

// With `sms` SMs, where that is not 0.
Gpu gpu_with(int sms) {
  const auto attribute = [](cudaDeviceAttr what) {
    int value = 0;
    cudaDeviceGetAttribute(&value, what, 0);
    return value;
  };
  const int capability =
      attribute(cudaDevAttrComputeCapabilityMajor) * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
  return {capability, sms != 0 ? sms : attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), capability};
}

template <typename Problem>
const Problem& as(const void* problem) {
  return *static_cast<const Problem*>(problem);
}

// Memory that a run needs besides, poisoned, which ends where nothing may be touched; the run's end frees it.
std::vector<void*> scratches;
void* scratch(int64_t bytes) {
  if (bytes == 0) return nullptr;
  scratches.push_back(simulation::allocate_guarded(static_cast<size_t>(bytes), true, 256));
  return scratches.back();
}
void free_scratches() {
  for (void* memory : scratches) simulation::free_guarded(memory);
  scratches.clear();
}

// What a kernel in front of the product writes, at its end: the operands and whatever else the product reads, and into
// the output what must not come in behind the product's own.
struct Written {
  void* data;
  std::vector<unsigned char> bytes;
};
std::vector<Written> written_before;

void copy_all() {
  for (const Written& one : written_before) std::memcpy(one.data, one.bytes.data(), one.bytes.size());
}

// Lets go what depends on it as early as it can, and runs after that has got far: behind barriers of its own, each of
// which is a turn for all others.
void write_all(int) {
  simulation::launch_dependents(simulation::Site::here());
  for (int i = 0; i < 32; ++i) simulation::sync_threads_or(0, simulation::Site::here());
  if (threadIdx.x == 0) copy_all();
}

void launch_writer() {
  if (written_before.empty()) return;
  // As scales these are NaN, and 1.
  const int before = simulation::schedule.seed % 4 < 2 ? simulation::kPoison : 0x7f;
  for (Written& one : written_before) {
    const auto* data = static_cast<const unsigned char*>(one.data);
    one.bytes.assign(data, data + one.bytes.size());
    std::memset(one.data, before, one.bytes.size());
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  simulation::launch(config, write_all, 0);
}

bool refuses_second_way = false;

// Whether kernels that compute the product anew may follow, under a condition that the first ones leave.
bool may_follow(const DeviceFlag& flag) {
  if (flag.words == nullptr) return false;
  if (!refuses_second_way) return true;
  if (!simulation::synchronize()) return false;
  bool any = false;
  for (int i = 0; i < flag.count; ++i) any = any || flag.words[i] != 0;
  if (any == flag.when_set) throw std::runtime_error("the kernels ask for the product to be computed anew");
  return false;
}

// Null, or what went wrong.
template <typename Run>
const char* run_to_end(const Run& run) {
  std::string what;
  try {
    launch_writer();
    run();
  } catch (const std::exception& error) {
    what = error.what();
  }
  if (!simulation::synchronize() && what.empty()) what = simulation::last_fault();
  if (what.empty()) return nullptr;
  copy_all();  // the kernel in front may not have come to it
  return keep(what);
}

// The tables of products, in the order of Table.
const Backend* const kBackends[] = {&sm80::kDenseBackend, &sm90::kDenseBackend, &sm80::kBlockScaledBackend,
                                    &sm90::kBlockScaledBackend};

// Python has the kernels' structs once more: a problem from one of these.
tileon::Problem problem_of(int table, const void* of_python) {
  tileon::Problem problem;
  const auto take = [&](const auto& from) {
    problem.m = from.m, problem.n = from.n, problem.k = from.k;
    problem.out_dtype = from.out_dtype;
    problem.fast_accum = from.fast_accum;
    problem.out = from.out;
    problem.epilogue = from.epilogue;
    problem.device_flag = from.device_flag;
  };
  if (table == kPortable || table == kHopper) {
    const auto& from = as<KernelProblem>(of_python);
    take(from);
    problem.batch = from.batch;
    problem.allow_tf32 = from.allow_tf32;
    problem.a = {from.a, from.dtype, {}};
    problem.b = {from.b, from.b_dtype, {}};
    problem.pre_activation = from.pre_activation;
    return problem;
  }
  const auto& from = as<ScaledKernelProblem>(of_python);
  take(from);
  const auto operand = [&](const ScaledKernelOperand& codes) -> Operand {
    const Scale scale{codes.scale, from.scale_type, codes.scale == nullptr ? 0 : from.vec, codes.scale_strides};
    return {{codes.data, codes.stride_row, codes.stride_k, 0}, codes.dtype, scale};
  };
  problem.a = operand(from.a);
  problem.b = operand(from.b);
  problem.prepared_b = from.prepared_b;
  problem.global_scale = from.global_scale;
  return problem;
}

// Where there is room for a prepared weight, it is prepared before.
void prepare(const tileon::Problem& problem) {
  if (problem.prepared_b.data == nullptr) return;
  tileon::Problem weight = problem;
  weight.m = 0;
  sm90::prepare_weight(weight, problem.prepared_b, scratch(sm90::prepare_weight_scratch_bytes(weight)), nullptr);
}

// Where the kernels leave a condition under which others compute the product anew, those follow.
void run_product(int table, int row, tileon::Problem problem, const Gpu& gpu) {
  if (table == kHopperBlockScaled) prepare(problem);
  const Backend& backend = *kBackends[table];
  const int64_t bytes = backend.scratch_bytes == nullptr ? 0 : backend.scratch_bytes(row, problem, gpu);
  problem.device_flag = backend.run(row, problem, gpu, scratch(bytes), nullptr);
  if (!may_follow(problem.device_flag)) return;
  problem.may_slice_k = false;
  const Backend& portable = problem.is_weight_only() ? sm80::kDecodedBackend
                            : problem.is_scaled()    ? sm80::kBlockScaledBackend
                                                     : sm80::kDenseBackend;
  portable.run(portable.choose_config(problem, gpu).config, problem, gpu, nullptr, nullptr);
}

void run_elementwise(int row, const void* problem, const Gpu& gpu) {
  if (row == 0) {
    const auto& quantized = as<QuantizeProblem>(problem);
    return run_quantize(quantized, scratch(quantize_workspace(quantized)), nullptr);
  }
  if (row == 1) return run_dequantize(as<DequantizeProblem>(problem), nullptr);
  if (row == 2) return run_scale_pack(as<ScalePackProblem>(problem), nullptr);
  if (row == 3) return run_operand_copies({&as<OperandCopyProblem>(problem), 1}, nullptr);
  if (row == 5) return run_quantize_nvfp4_rows(as<Nvfp4RowsProblem>(problem), nullptr);
  const auto& backward = as<EpilogueBackwardProblem>(problem);
  run_epilogue_backward(backward, scratch(epilogue_backward_workspace(backward, gpu.sm_count)), gpu.sm_count, nullptr);
}

}  // namespace

extern "C" {

int simulation_row_count(int table) {
  return table == kElementwise ? static_cast<int>(std::size(kElementwiseRows)) : kBackends[table]->config_count();
}

const char* simulation_row_name(int table, int row) {
  return table == kElementwise ? kElementwiseRows[row] : kBackends[table]->config_name(row);
}

// What a row multiplies, as the library's ops say it.
const char* simulation_row_operands(int table, int row) {
  return table == kElementwise ? "" : keep(kBackends[table]->config_fields(row).operands);
}

// Of the structs of problems, in the order of Python's list.
int64_t simulation_struct_bytes(int index) {
  const int64_t bytes[] = {sizeof(KernelProblem),      sizeof(ScaledKernelProblem),    sizeof(QuantizeProblem),
                           sizeof(Nvfp4RowsProblem),   sizeof(DequantizeProblem),      sizeof(ScalePackProblem),
                           sizeof(OperandCopyProblem), sizeof(EpilogueBackwardProblem)};
  return bytes[index];
}

// Of an elementwise problem Python knows its row.
const char* simulation_why_not(int table, int row, const void* problem, int sms) {
  if (table == kElementwise) return nullptr;
  return kBackends[table]->why_not(row, problem_of(table, problem), gpu_with(sms));
}

const char* simulation_run(int table, int row, const void* problem, int sms) {
  simulation::label = simulation_row_name(table, row);
  const char* error = run_to_end([&] {
    const Gpu gpu = gpu_with(sms);
    if (table == kElementwise) return run_elementwise(row, problem, gpu);
    run_product(table, row, problem_of(table, problem), gpu);
  });
  const bool is_intact = simulation::padding_is_intact();
  free_scratches();
  return error == nullptr && !is_intact ? "memory beside a tensor was written" : error;
}

// From now on each run has a kernel in front of it, which writes what lies in these places.
void simulation_write_before(void* data, int64_t bytes) {
  written_before.push_back({data, std::vector<unsigned char>(static_cast<size_t>(bytes))});
}
void simulation_write_nothing_before() { written_before.clear(); }

// From now on it is a fault where the product is computed a second time: what goes wrong in the first one would not
// show.
void simulation_refuse_second_way(int on) { refuses_second_way = on != 0; }
}
