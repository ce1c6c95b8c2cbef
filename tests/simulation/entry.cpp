// What Python calls: a problem on given pointers by row `row` of a table, in a schedule. simulation.py has the same
// structs.
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/epilogue_backward/epilogue_backward.h"
#include "cuda/gpu.h"
#include "cuda/quantize/quantize.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "guarded.h"
#include "runtime.h"
#include "state.h"

using namespace tileon;

namespace {

enum Table { kPortable, kHopper, kPortableBlockScaled, kHopperBlockScaled };

std::string text;  // what the last call returned

const char* keep(const std::string& what) {
  text = what;
  return text.c_str();
}

Gpu gpu() {
  int major = 0, minor = 0, sms = 0, shared = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  return {major * 10 + minor, sms, shared, major * 10 + minor};
}

struct Strides {
  const void* data;
  int64_t mn, k, batch;
};
struct Finish {
  const void* bias;
  int64_t bias_stride;
  int32_t bias_dtype, activation;
  double slope;
};
struct Dense {
  int64_t batch, m, n, k;
  int32_t dtype, b_dtype, out_dtype, allow_tf32, fast_accum, sms;  // sms: of the GPU, where it is not 0
  Strides a, b, out;                                               // of the output: m, n, batch
  Finish finish;
  void* pre_activation;
};
struct Scaled {
  const void* data;
  const void* scale;
  int64_t stride_row;
  int32_t element, packed;
};
struct BlockScaled {
  int64_t m, n, k;
  int32_t scale_type, out_dtype, fast_accum, sms;
  Scaled a, b;
  Strides out;
  Finish finish;
  const float* global_scale;
};

Epilogue epilogue_of(const Finish& finish) {
  return {finish.bias, finish.bias_stride, static_cast<DType>(finish.bias_dtype),
          static_cast<Activation>(finish.activation), finish.slope};
}
Operand operand_of(const Strides& strides) { return {strides.data, strides.mn, strides.k, strides.batch}; }
Output output_of(const Strides& strides) {
  return {const_cast<void*>(strides.data), strides.mn, strides.k, strides.batch};
}

GemmProblem problem_of(const Dense& dense) {
  GemmProblem problem;
  problem.batch = dense.batch;
  problem.m = dense.m;
  problem.n = dense.n;
  problem.k = dense.k;
  problem.dtype = static_cast<DType>(dense.dtype);
  problem.b_dtype = static_cast<DType>(dense.b_dtype);
  problem.out_dtype = static_cast<DType>(dense.out_dtype);
  problem.allow_tf32 = dense.allow_tf32 != 0;
  problem.fast_accum = dense.fast_accum != 0;
  problem.a = operand_of(dense.a);
  problem.b = operand_of(dense.b);
  problem.out = output_of(dense.out);
  problem.epilogue = epilogue_of(dense.finish);
  problem.pre_activation = dense.pre_activation;
  return problem;
}

BlockScaledProblem problem_of(const BlockScaled& scaled) {
  BlockScaledProblem problem;
  problem.m = scaled.m;
  problem.n = scaled.n;
  problem.k = scaled.k;
  problem.scale_type = static_cast<ScaleType>(scaled.scale_type);
  problem.vec = vec_of(problem.scale_type);
  problem.out_dtype = static_cast<DType>(scaled.out_dtype);
  problem.fast_accum = scaled.fast_accum != 0;
  const int64_t cols = problem.k / problem.vec;
  const auto operand = [&](const Scaled& from) {
    return BlockScaledOperand{from.data,  from.stride_row,
                              1,          static_cast<ElementType>(from.element),
                              from.scale, from.packed != 0 ? packed_scales(cols) : flat_scales(cols, 1)};
  };
  problem.a = operand(scaled.a);
  problem.b = operand(scaled.b);
  problem.out = output_of(scaled.out);
  problem.epilogue = epilogue_of(scaled.finish);
  problem.global_scale = scaled.global_scale;
  return problem;
}

Gpu gpu_with(int32_t sms) {
  Gpu one = gpu();
  if (sms != 0) one.sm_count = sms;
  return one;
}

// Memory that a run needs besides, poisoned, which ends where nothing may be touched. Runs of as many bytes share it.
std::map<int64_t, void*> scratches;
void* scratch(int64_t bytes) {
  if (bytes == 0) return nullptr;
  void*& memory = scratches[bytes];
  if (memory == nullptr) memory = simulation::allocate_guarded(static_cast<size_t>(bytes), true, 256);
  return std::memset(memory, simulation::kPoison, static_cast<size_t>(bytes));
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
bool may_follow(const Condition& condition) {
  if (condition.words == nullptr) return false;
  if (!refuses_second_way) return true;
  if (!simulation::synchronize()) return false;
  bool any = false;
  for (int i = 0; i < condition.count; ++i) any = any || condition.words[i] != 0;
  if (any == condition.when_set) throw std::runtime_error("the kernels ask for the product to be computed anew");
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

}  // namespace

extern "C" {

int simulation_row_count(int table) {
  switch (table) {
    case kPortable:
      return sm80::row_count();
    case kHopper:
      return sm90::row_count();
    case kPortableBlockScaled:
      return sm80::block_scaled_row_count();
    default:
      return sm90::block_scaled_row_count();
  }
}

const char* simulation_row_name(int table, int row) {
  switch (table) {
    case kPortable:
      return sm80::row_name(row);
    case kHopper:
      return sm90::row_name(row);
    case kPortableBlockScaled:
      return sm80::block_scaled_row_name(row);
    default:
      return sm90::block_scaled_row_name(row);
  }
}

const char* simulation_why_not(int table, int row, const void* problem) {
  const auto& dense = *static_cast<const Dense*>(problem);
  const auto& scaled = *static_cast<const BlockScaled*>(problem);
  switch (table) {
    case kPortable:
      return sm80::why_not(row, problem_of(dense), gpu_with(dense.sms));
    case kHopper:
      return sm90::why_not(row, problem_of(dense), gpu_with(dense.sms));
    case kPortableBlockScaled:
      return sm80::why_not(row, problem_of(scaled), gpu_with(scaled.sms));
    default:
      return sm90::why_not(row, problem_of(scaled), gpu_with(scaled.sms));
  }
}

// Computes the product; where the kernels leave a condition under which others compute it anew, those follow.
const char* simulation_run(int table, int row, const void* problem) {
  simulation::label = simulation_row_name(table, row);
  return run_to_end([&] {
    if (table == kPortable || table == kHopper) {
      const auto& dense = *static_cast<const Dense*>(problem);
      GemmProblem gemm = problem_of(dense);
      const Gpu on = gpu_with(dense.sms);
      if (table == kPortable) {
        sm80::run(row, gemm, on, nullptr, nullptr);
        return;
      }
      gemm.condition = sm90::run(row, gemm, on, scratch(sm90::scratch_bytes(row, gemm)), nullptr);
      if (may_follow(gemm.condition)) sm80::run(sm80::choose_row(gemm, on), gemm, on, nullptr, nullptr);
    } else {
      const auto& scaled = *static_cast<const BlockScaled*>(problem);
      BlockScaledProblem gemm = problem_of(scaled);
      const Gpu on = gpu_with(scaled.sms);
      if (table == kPortableBlockScaled) {
        sm80::run(row, gemm, nullptr);
        return;
      }
      gemm.condition = sm90::run(row, gemm, on, scratch(sm90::scratch_bytes(row, gemm)), nullptr);
      if (may_follow(gemm.condition)) sm80::run(sm80::choose_row(gemm, on), gemm, nullptr);
    }
  });
}

// x [rows][k] contiguous, of float32, float16 or bfloat16; data and packed scales come out.
const char* simulation_quantize(int64_t rows, int64_t k, int format, int rounding, int dtype, const void* x,
                                const float* global_scale, uint8_t* data, uint8_t* scale) {
  simulation::label = "quantize";
  return run_to_end([&] {
    run_quantize({rows, k, static_cast<Format>(format), static_cast<ScaleRounding>(rounding), static_cast<DType>(dtype),
                  x, k, 1, global_scale, data, scale},
                 nullptr);
  });
}

const char* simulation_dequantize(int64_t rows, int64_t k, int format, int dtype, const uint8_t* data,
                                  const uint8_t* scale, const float* global_scale, void* out) {
  simulation::label = "dequantize";
  return run_to_end([&] {
    DequantizeProblem problem{rows, k, static_cast<Format>(format), static_cast<DType>(dtype), data};
    problem.stride_row = k / elements_per_byte(info(problem.format).element);
    problem.stride_k = 1;
    problem.scale = scale;
    problem.scale_strides = packed_scales(problem.cols());
    problem.global_scale = global_scale;
    problem.out = out;
    run_dequantize(problem, nullptr);
  });
}

// [rows][cols] to packed, or back.
const char* simulation_scale_pack(int64_t rows, int64_t cols, const uint8_t* from, uint8_t* to, int to_packed) {
  simulation::label = "scale_pack";
  return run_to_end([&] {
    const ScaleStrides strides = to_packed != 0 ? flat_scales(cols, 1) : packed_scales(cols);
    run_scale_pack({rows, cols, from, strides, to, to_packed != 0}, nullptr);
  });
}

// All of one dtype, contiguous.
const char* simulation_epilogue_backward(int64_t m, int64_t n, int dtype, const void* grad, const void* saved,
                                         void* grad_z, void* grad_bias, int activation, double slope) {
  simulation::label = "epilogue_backward";
  return run_to_end([&] {
    EpilogueBackwardProblem problem;
    problem.m = m;
    problem.n = n;
    problem.grad_dtype = problem.out_dtype = problem.bias_dtype = static_cast<DType>(dtype);
    problem.grad = grad;
    problem.stride_m = n;
    problem.stride_n = 1;
    problem.saved = saved;
    problem.grad_z = grad_z;
    problem.grad_bias = grad_bias;
    problem.activation = static_cast<Activation>(activation);
    problem.slope = slope;
    const int sms = gpu().sm_count;
    run_epilogue_backward(problem, scratch(epilogue_backward_workspace(problem, sms)), sms, nullptr);
  });
}

// From now on each run has a kernel in front of it, which writes what lies in these places.
void simulation_write_before(void* data, int64_t bytes) {
  written_before.push_back({data, std::vector<unsigned char>(static_cast<size_t>(bytes))});
}
void simulation_write_nothing_before() { written_before.clear(); }

// From now on it is a fault where the product is computed a second time: what goes wrong in the first one would not
// show.
void simulation_refuse_second_way(int on) { refuses_second_way = on != 0; }

void simulation_begin(uint64_t seed, int independent_lanes) {
  simulation::keep_launches(true);
  simulation::begin_run(simulation::Schedule::from_seed(seed, independent_lanes != 0));
}
int simulation_choose_device(const char* name) { return simulation::choose_device(name) ? 1 : 0; }

void* simulation_allocate(int64_t bytes, int at_end, int alignment) {
  return simulation::allocate_guarded(static_cast<size_t>(bytes), at_end != 0, static_cast<size_t>(alignment));
}
int simulation_padding_is_intact() { return simulation::padding_is_intact() ? 1 : 0; }
void simulation_free() {
  scratches.clear();
  simulation::free_guarded();
}

void simulation_leave_out(const char* file, int line, int first_warp, int last_warp) {
  if (file == nullptr) return simulation::leave_out_nothing();
  simulation::leave_out(file, line, first_warp, last_warp);
}
void simulation_record_sites(int on) { simulation::record_sites(on != 0); }
const char* simulation_sites() { return keep(simulation::recorded_sites()); }

// Switches, asynchronous tasks, wgmma, mma.sync, grids; since the library was loaded.
void simulation_statistics(uint64_t* counts) {
  const simulation::Statistics& from = simulation::statistics;
  const uint64_t all[] = {from.switches, from.tasks, from.products, from.mmas, from.grids};
  for (int i = 0; i < 5; ++i) counts[i] = all[i];
}
}
