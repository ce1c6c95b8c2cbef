// What Python calls: a problem on given pointers by row `row` of a table, in a schedule. Python has the library's own
// structs of problems once more.
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/elementwise/epilogue_backward.h"
#include "cuda/elementwise/quantize.h"
#include "cuda/runtime/gpu.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "guarded.h"
#include "runtime.h"
#include "state.h"

using namespace tileon;

namespace {

enum Table { kPortable, kHopper, kPortableBlockScaled, kHopperBlockScaled, kElementwise };
const char* const kElementwiseRows[] = {"quantize", "dequantize", "scale_pack", "epilogue_backward"};

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

void run_portable(int row, const GemmProblem& problem, const Gpu& gpu) {
  sm80::run(row, problem, gpu, nullptr, nullptr);
}
void run_portable(int row, const BlockScaledProblem& problem, const Gpu& gpu) {
  sm80::run(row, problem, gpu, nullptr, nullptr);
}

// Where the kernels leave a condition under which others compute the product anew, those follow.
template <typename Problem>
void run_hopper(int row, Problem problem, const Gpu& gpu) {
  problem.device_flag = sm90::run(row, problem, gpu, scratch(sm90::scratch_bytes(row, problem)), nullptr);
  if (may_follow(problem.device_flag)) run_portable(sm80::choose_config(problem, gpu), problem, gpu);
}

// Where there is room for a prepared weight, it is prepared before.
void prepare(const BlockScaledProblem& problem) {
  if (problem.prepared_b.data == nullptr) return;
  BlockScaledProblem weight = problem;
  weight.m = 0;
  sm90::prepare_weight(weight, problem.prepared_b, scratch(sm90::prepare_weight_scratch_bytes(weight)), nullptr);
}

void run_elementwise(int row, const void* problem, const Gpu& gpu) {
  if (row == 0) return run_quantize(as<QuantizeProblem>(problem), nullptr);
  if (row == 1) return run_dequantize(as<DequantizeProblem>(problem), nullptr);
  if (row == 2) return run_scale_pack(as<ScalePackProblem>(problem), nullptr);
  const auto& backward = as<EpilogueBackwardProblem>(problem);
  run_epilogue_backward(backward, scratch(epilogue_backward_workspace(backward, gpu.sm_count)), gpu.sm_count, nullptr);
}

}  // namespace

extern "C" {

int simulation_row_count(int table) {
  const int counts[] = {sm80::config_count(), sm90::config_count(), sm80::block_scaled_config_count(),
                        sm90::block_scaled_config_count(), static_cast<int>(std::size(kElementwiseRows))};
  return counts[table];
}

const char* simulation_row_name(int table, int row) {
  switch (table) {
    case kPortable:
      return sm80::config_name(row);
    case kHopper:
      return sm90::config_name(row);
    case kPortableBlockScaled:
      return sm80::block_scaled_config_name(row);
    case kHopperBlockScaled:
      return sm90::block_scaled_config_name(row);
    default:
      return kElementwiseRows[row];
  }
}

// Of the structs of problems, in the order of Python's list.
int64_t simulation_struct_bytes(int index) {
  const int64_t bytes[] = {sizeof(GemmProblem),       sizeof(BlockScaledProblem), sizeof(QuantizeProblem),
                           sizeof(DequantizeProblem), sizeof(ScalePackProblem),   sizeof(EpilogueBackwardProblem)};
  return bytes[index];
}

// Of an elementwise problem Python knows its row.
const char* simulation_why_not(int table, int row, const void* problem, int sms) {
  const Gpu gpu = gpu_with(sms);
  switch (table) {
    case kPortable:
      return sm80::why_not(row, as<GemmProblem>(problem), gpu);
    case kHopper:
      return sm90::why_not(row, as<GemmProblem>(problem), gpu);
    case kPortableBlockScaled:
      return sm80::why_not(row, as<BlockScaledProblem>(problem), gpu);
    case kHopperBlockScaled:
      return sm90::why_not(row, as<BlockScaledProblem>(problem), gpu);
    default:
      return nullptr;
  }
}

const char* simulation_run(int table, int row, const void* problem, int sms) {
  simulation::label = simulation_row_name(table, row);
  const char* error = run_to_end([&] {
    const Gpu gpu = gpu_with(sms);
    switch (table) {
      case kPortable:
        return run_portable(row, as<GemmProblem>(problem), gpu);
      case kHopper:
        return run_hopper(row, as<GemmProblem>(problem), gpu);
      case kPortableBlockScaled:
        return run_portable(row, as<BlockScaledProblem>(problem), gpu);
      case kHopperBlockScaled:
        prepare(as<BlockScaledProblem>(problem));
        return run_hopper(row, as<BlockScaledProblem>(problem), gpu);
      default:
        return run_elementwise(row, problem, gpu);
    }
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
