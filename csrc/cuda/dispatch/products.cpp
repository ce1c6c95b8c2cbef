// Products on CUDA tensors: their backends, the memory that a call takes besides its result, and how a call runs.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <array>
#include <atomic>
#include <optional>

#include "checks/scaled_products.h"
#include "cuda/dispatch/device.h"
#include "cuda/dispatch/elementwise.h"
#include "cuda/dispatch/expanded.h"
#include "cuda/dispatch/plan.h"
#include "cuda/dispatch/scaled_mm.h"
#include "cuda/dispatch/tables.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "entry/layers.h"
#include "entry/products.h"
#include "entry/quantized_linear.h"
#include "tuning/kernel_log.h"
#include "tuning/problem_key.h"
#include "tuning/tuned_configs.h"

namespace tileon {
namespace {

// A call runs by the first backend that is for the GPU and takes the problem. The last backend takes every problem.
constexpr const Backend* kScaledBackends[] = {&expanded::kFoldBackend, &sm90::kBlockScaledBackend,
                                              &scaled_mm::kBackend,    &sm80::kBlockScaledBackend,
                                              &expanded::kBackend,     &sm80::kDecodedBackend};
constexpr Backends backends_of(bool is_scaled) {
  return is_scaled ? Backends{kScaledBackends} : Backends{kDenseBackends};
}
Backends backends_of(const Problem& problem) { return backends_of(problem.is_scaled()); }

// ---- copies ----

// Fills a copy whose elements are of another dtype with a tensor, [.., mn, k] or [.., k, mn]; one matrix of a shared
// batch stands for all.
void convert(const AlignedCopy& copy, void* memory, const Tensor& tensor, int mn_dim) {
  const int64_t dims = tensor.dim();
  const bool shared = dims == 3 && copy.batch == 1 && tensor.size(0) > 1;
  const Tensor source = shared ? torch::stable::narrow(const_cast<Tensor&>(tensor), 0, 0, 1) : tensor;
  const Matrix place = copy.at(memory);
  int64_t strides[3] = {copy.outer() * copy.pitch, 0, 0};
  strides[1 + mn_dim] = place.stride_mn;
  strides[2 - mn_dim] = place.stride_k;
  Tensor target = torch::stable::from_blob(memory, source.sizes(), {strides + 3 - dims, static_cast<size_t>(dims)},
                                           tensor.device(), scalar_type(copy.dtype));
  torch::stable::copy_(target, source);
}

// Makes the copies of a way in its memory, and puts them in the operands' place.
void copy_operands(Way& way, const Problem& problem, const ProductArguments& arguments, uint8_t* memory,
                   cudaStream_t stream) {
  std::array<OperandCopyProblem, 2> copies;
  size_t count = 0;
  const auto copy = [&](const AlignedCopy& wanted, uint8_t* to, const Operand& operand, const Tensor& tensor,
                        int mn_dim, Matrix& place) {
    if (wanted.dtype == operand.dtype) {
      copies[count++] = wanted.of(operand, to);
    } else {
      convert(wanted, to, tensor, mn_dim);
    }
    place = wanted.at(to);
  };
  if (way.a) copy(*way.a, memory, problem.a, arguments.a, 0, way.problem.a);
  if (way.b) copy(*way.b, memory + way.begin_of_b(), problem.b, arguments.b, 1, way.problem.b);
  run_operand_copies({copies.data(), count}, stream);
}

// ---- the config that was measured to be the fastest: tuned configs, and calls into Python's tuner that set them ----

// Python's tuner says itself what it could not do; what comes through all the same, such as a KeyboardInterrupt, ends
// the call. Its type does not come through torch's C interface: tileon_ops/_rules/errors.py gives it back.
template <size_t kArguments>
void call_tuner(const char* op, std::array<StableIValue, kArguments> stack) {
  if (torch_call_dispatcher(op, "", stack.data(), TORCH_ABI_VERSION) == 0) return;
  const std::string words = torchs_words();
  fail(op, ": the tuner was interrupted", words.empty() ? "" : ": " + words);
}

void measure_configs(const ProductArguments& call) {
  if (call.scale_b == nullptr)
    return call_tuner("tileon::_tune_matmul",
                      std::array{from(call.a), from(call.b), from(call.bias), from(call.activation), from(call.slope),
                                 from(call.out_dtype), from(call.allow_tf32), from(call.fast_accum)});
  const auto scale_a = call.scale_a == nullptr ? std::nullopt : std::optional<Tensor>(*call.scale_a);
  call_tuner("tileon::_tune_block_scaled_matmul",
             std::array{from(call.a), from(call.b), from(scale_a), from(*call.scale_b), from(call.bias),
                        from(call.global_scale), from(call.activation), from(call.slope), from(call.out_dtype),
                        from(call.fast_accum)});
}

// Whether this thread is inside the tuner, whose products must not be tuned themselves.
thread_local bool is_measuring = false;

// Measuring allocates and waits. Where another thread captures a graph in the default mode, the first such call of any
// thread would end its capture: this thread's calls are to be held against its own captures alone.
class Measuring {
 public:
  Measuring() {
    is_measuring = true;
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~Measuring() {
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
    is_measuring = false;
  }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeThreadLocal;
};

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "asking whether the stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

void load_tuned_configs(int device) {
  static std::array<std::atomic<bool>, kMaxDevices> asked{};
  if (asked[device].load(std::memory_order_relaxed)) return;  // an exchange alone would cost every product some ns
  if (!asked[device].exchange(true)) call_tuner("tileon::_load_tuned_configs", std::array{from(int64_t{device})});
}

// The name of the config that was measured to be the fastest for the problem; null where that is not known. With
// TILEON_TUNE=1 it is measured now, except while a graph is captured, and except for what the tuner's op does not
// state: an output laid out unlike the op's own, a prepared weight, the argument of the activation kept besides.
const char* name_of_measured_config(const Problem& problem, const ProductArguments& arguments, int device,
                                    cudaStream_t stream) {
  if (announced_tuner.loads) load_tuned_configs(device);
  const bool measures =
      announced_tuner.tunes && !is_measuring && problem.pre_activation == nullptr && problem.prepared_b.data == nullptr;
  if (!measures && !has_tuned_configs) return nullptr;
  const std::string text = problem_text(problem);
  const char* config = tuned_config(device, text);
  if (config != nullptr || !measures || fresh_problem_text(problem) != text || is_captured(stream)) return config;
  {
    const Measuring measuring;
    measure_configs(arguments);
  }
  return tuned_config(device, text);
}

// Whether a product has anything to ask: read by every call.
bool may_be_tuned() {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (is_batch_invariant.load(relaxed)) return false;
  return has_tuned_configs.load(relaxed) || announced_tuner.loads.load(relaxed) || announced_tuner.tunes.load(relaxed);
}

// ---- the config ----

void check_way(const char* op, const Way& way, const Gpu& gpu) {
  if (way.config.backend == nullptr)
    fail(op, ": needs a GPU of compute capability 8.0 or newer, got ", gpu.capability / 10, ".", gpu.capability % 10);
}

// Config `index` of the table, which must be able to run the problem.
BackendConfig config_by_index(const char* op, int64_t index, const Problem& problem, const Gpu& gpu) {
  const Backends backends = backends_of(problem);
  const auto found = backends.at(index);
  if (!found)
    fail(op, ": `config` must be below ", backends.config_count(), ", the rows of the tile table here, got ", index);
  if (const char* reason = found->why_not(problem, gpu); reason != nullptr)
    fail(op, ": `config` ", index, " (", found->name(), ", ", found->operands(),
         ") cannot run these operands: ", reason);
  return *found;
}

// By config `index` of the table. Where `index` is negative: by the config that was measured to be the fastest, if one
// was and may be chosen, else by the one that the library expects to be the fastest.
Way way_to_run(const Problem& problem, const ProductArguments& arguments, int64_t index, int device, const Gpu& gpu,
               cudaStream_t stream) {
  if (index >= 0) return plan_of(config_by_index(arguments.op, index, problem, gpu), problem);
  if (may_be_tuned()) {
    const char* name = name_of_measured_config(problem, arguments, device, stream);
    if (const auto measured = name == nullptr ? std::nullopt : backends_of(problem).candidate(name, problem, gpu))
      return plan_of(*measured, problem);
  }
  return plan(backends_of(problem), problem, gpu);
}

// ---- the run ----

struct Cuda : CudaDevice {
  static void require_prepared(const char*) {}

  static int index_of(const Tensor& tensor) { return tensor.get_device_index(); }

  // Of kernels of Hopper's alone, and not where results are batch invariant: rows beyond some number go by codes.
  static bool takes_numbers(const Problem& problem, Format format, int device) {
    if (is_batch_invariant.load(std::memory_order_relaxed) || problem.products() == 0) return false;
    const Gpu& gpu = gpu_of("_quantized_linear", device);
    return is_for(sm90::kBlockScaledBackend, gpu) && sm90::are_numbers_faster(problem, format, gpu);
  }

  // Runs config `index` of the table or, where `index` is negative, the library's choice; where the choice's memory
  // does not fit, a config that needs less.
  static void run(const Problem& problem, const ProductArguments& arguments, AtenTensorHandle, AtenTensorHandle,
                  int64_t index) {
    if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
    const char* op = arguments.op;
    const int device = arguments.a.get_device_index();
    const CurrentDevice current_device(device);
    const Gpu& gpu = gpu_of(op, device);
    const cudaStream_t stream = current_stream(op, device);
    Way way = way_to_run(problem, arguments, index, device, gpu, stream);
    check_way(op, way, gpu);
    // The way's copies and scratch. Torch's allocator keeps the memory alive for the kernels, in stream order.
    OwnedTensor memory;
    const auto is_granted = [&] {
      const int64_t bytes = way.bytes(gpu);
      if (bytes > 0) memory = try_allocate(arguments.a, {1, {bytes}}, ScalarType::Byte);
      return bytes == 0 || memory;
    };
    bool short_of_memory = false;
    if (!is_granted()) {
      short_of_memory = index < 0;
      if (short_of_memory) way = plan_without_memory(backends_of(problem), problem, gpu);
      check_way(op, way, gpu);
      if (!short_of_memory || !is_granted()) fail_to_allocate(op, arguments.a, {1, {way.bytes(gpu)}}, ScalarType::Byte);
    }
    uint8_t* begin = memory ? static_cast<uint8_t*>(writable_data(memory.get())) : nullptr;
    if (way.a || way.b) copy_operands(way, problem, arguments, begin, stream);
    run_config(backends_of(way.problem), way.config, way.problem, gpu, begin + way.begin_of_scratch(), stream);
    record_kernel(way.config.name(), {way.a.has_value(), way.b.has_value(), short_of_memory});
    log_call(problem);
  }

  // Of a weight that Hopper's kernels multiply.
  static Tensor prepare(Problem problem, PreparedForm form, const Tensor& b) {
    constexpr const char* kPrepare = "_prepare_block_scaled";
    const int device = b.get_device_index();
    const CurrentDevice current_device(device);
    if (const char* reason = sm90::why_not_prepare_weight(problem, gpu_of(kPrepare, device)); reason != nullptr)
      fail(kPrepare, ": cannot prepare `b`: ", reason);
    const auto allocate_bytes = [&](int64_t bytes) { return allocate(kPrepare, b, {1, {bytes}}, ScalarType::Byte); };
    const Tensor prepared = allocate_bytes(PreparedLayout(form, problem.n, problem.k).bytes);
    const Tensor scratch = allocate_bytes(sm90::prepare_weight_scratch_bytes(problem));
    const cudaStream_t stream = current_stream(kPrepare, device);
    std::optional<Tensor> copy;
    if (const auto codes = plan_copy_of_codes(problem.b, problem.n, problem)) {
      copy = allocate_bytes(codes->bytes());
      const OperandCopyProblem made = codes->of(problem.b, copy->mutable_data_ptr());
      run_operand_copies({&made, 1}, stream);
      static_cast<Matrix&>(problem.b) = codes->at(copy->mutable_data_ptr());
    }
    sm90::prepare_weight(problem, {prepared.data_ptr(), form}, scratch.data_ptr(), stream);
    return prepared;
  }
};

// ---- what the choice on a GPU of so many SMs rests on, whatever GPU is here ----

std::string explain(const Tensor& a, const Tensor& b, int64_t capability, int64_t sm_count) {
  const std::string none = "none";
  Problem problem = check_matmul(matmul_arguments(a, b, kNoTensor, none, 0, std::nullopt, false, false));
  problem.out = packed_output(nullptr, problem);  // the choice asks how its rows are stored
  const Gpu gpu{static_cast<int>(capability), static_cast<int>(sm_count), shared_limit(static_cast<int>(capability)),
                static_cast<int>(capability)};
  const Way way = plan(backends_of(problem), problem, gpu);
  check_way("_explain_matmul", way, gpu);
  std::string text =
      std::string("chosen ") + way.config.name() + (way.a ? " (a copied)" : "") + (way.b ? " (b copied)" : "") + "\n";
  for (const Backend* backend : backends_of(problem).all)
    if (is_for(*backend, gpu) && backend->explain != nullptr) text += backend->explain(way.problem, gpu);
  return text;
}

// ---- for the tuner: the configs that may be chosen for a call ----

std::string candidates(const Problem& given, const ProductArguments& arguments) {
  Problem problem = given;
  problem.out = packed_output(nullptr, given);
  return backends_of(problem).candidates_text(problem, gpu_of(arguments.op, arguments.a.get_device_index()));
}

}  // namespace

std::string matmul_configs() { return backends_of(false).text(); }
std::string block_scaled_configs() { return backends_of(true).text(); }

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  tileon::ProductEntries<tileon::Cuda>::add_to(m);
  tileon::LayerEntries<tileon::Cuda>::add_to(m);
  tileon::QuantizedLinearEntry<tileon::Cuda, tileon::CudaQuantize>::add_to(m);
  m.impl("_matmul_candidates", TORCH_BOX(&tileon::of_matmul<&tileon::candidates>));
  m.impl("_block_scaled_matmul_candidates", TORCH_BOX(&tileon::of_block_scaled<&tileon::candidates>));
}

TILEON_KERNELS(CompositeExplicitAutograd, m) {
  m.impl("_explain_matmul", TORCH_BOX(&tileon::explain));
  m.impl("_multiplies_numbers", TORCH_BOX(&tileon::multiplies_numbers<tileon::Cuda>));
}
