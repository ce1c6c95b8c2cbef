// block_scaled_matmul on CUDA tensors: its backends, and what is copied for them. Weights that are prepared beforehand.
#include <torch/csrc/stable/library.h>

#include "cuda/dispatch/engine.h"
#include "cuda/dispatch/scaled_mm.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "entry/block_scaled.h"

namespace tileon {
namespace {

using BlockScaledWay = Way<BlockScaledProblem>;

// A call goes to the first one that is for the GPU and takes the problem. The portable kernels take every one.
constexpr Backend<BlockScaledProblem> kBackends[] = {
    {90, 90, sm90::block_scaled_config_count, sm90::block_scaled_config_name, sm90::block_scaled_config_formats,
     sm90::why_not, sm90::may_choose, sm90::choose_config, sm80::wants_copy, sm90::scratch_bytes, sm90::run},
    {100, 109, scaled_mm::config_count, scaled_mm::config_name, scaled_mm::config_formats, scaled_mm::why_not, nullptr,
     scaled_mm::choose_config, sm80::wants_copy, nullptr, scaled_mm::run},
    {80, 999, sm80::block_scaled_config_count, sm80::block_scaled_config_name, sm80::block_scaled_config_formats,
     sm80::why_not, nullptr, sm80::choose_config, sm80::wants_copy, nullptr, sm80::run},
};

// The codes of an operand as bytes: torch has no kernels that copy fp4.
Tensor bytes_of(const Tensor& codes) {
  return torch::stable::from_blob(codes.data_ptr(), codes.sizes(), codes.strides(), codes.device(), ScalarType::Byte);
}

void bind(BlockScaledOperand& operand, const Operand& codes) {
  operand.data = codes.data;
  operand.stride_row = codes.stride_mn;
  operand.stride_k = codes.stride_k;
}

struct BlockScaledMatmul {
  using Problem = BlockScaledProblem;
  using Arguments = BlockScaledArguments;
  static constexpr const char* kOp = block_scaled::kOp;
  static constexpr int kMnDimOfA = 0, kMnDimOfB = 0;

  static constexpr Backends<BlockScaledProblem> backends() { return {kBackends}; }

  static BlockScaledWay plan(const BlockScaledProblem& problem, const Gpu& gpu) {
    return plan_of(or_fail(backends().choose(problem, gpu), gpu), problem);
  }

  static BlockScaledWay plan_without_memory(const BlockScaledProblem& problem, const Gpu& gpu) {
    return plan_of(or_fail(backends().choose(problem, gpu, false), gpu), problem);
  }

  // Every backend wants the same copies, so they are planned after the choice.
  static BlockScaledWay plan_of(const BackendConfig<BlockScaledProblem>& config, const BlockScaledProblem& problem) {
    BlockScaledWay way{config, problem, {}, {}};
    if (config.backend->wants_copy(problem.a, problem.m, problem))
      way.a = {copy_of_codes(problem.a, problem.m, problem.k), ScalarType::Byte};
    if (config.backend->wants_copy(problem.b, problem.n, problem))
      way.b = {copy_of_codes(problem.b, problem.n, problem.k), ScalarType::Byte};
    return way;
  }

  static bool can_measure(const BlockScaledProblem& problem) { return problem.prepared_b.data == nullptr; }
  static Tensor source_of_a(const BlockScaledArguments& arguments) { return bytes_of(arguments.a); }
  static Tensor source_of_b(const BlockScaledArguments& arguments) { return bytes_of(arguments.b); }
  static void bind_a(BlockScaledProblem& problem, const Operand& codes) { bind(problem.a, codes); }
  static void bind_b(BlockScaledProblem& problem, const Operand& codes) { bind(problem.b, codes); }

 private:
  static BackendConfig<BlockScaledProblem> or_fail(const BackendConfig<BlockScaledProblem>& config, const Gpu& gpu) {
    if (config.backend == nullptr) fail_without_backend(kOp, gpu);
    return config;
  }
};

struct Cuda : CudaDevice {
  static void require_prepared(const char*) {}

  static void run(const BlockScaledProblem& problem, const BlockScaledArguments& arguments, const Tensor&,
                  int64_t config) {
    run_product<BlockScaledMatmul>(problem, arguments, config);
  }

  // Of a weight that Hopper's kernels multiply.
  static Tensor prepare(BlockScaledProblem problem, PreparedForm form, const Tensor& b) {
    constexpr const char* kPrepare = "_prepare_block_scaled";
    const int device = b.get_device_index();
    const CurrentDevice current_device(device);
    if (const char* reason = sm90::why_not_prepare_weight(problem, gpu_of(kPrepare, device)); reason != nullptr)
      fail(kPrepare, ": cannot prepare `b`: ", reason);
    const auto allocate_bytes = [&](int64_t bytes) { return allocate(kPrepare, b, {1, {bytes}}, ScalarType::Byte); };
    const Tensor prepared = allocate_bytes(PreparedLayout(form, problem.n, problem.k).bytes);
    const Tensor scratch = allocate_bytes(sm90::prepare_weight_scratch_bytes(problem));
    std::optional<Tensor> copy;
    if (sm80::wants_copy(problem.b, problem.n, problem)) {
      const PlannedCopy codes{copy_of_codes(problem.b, problem.n, problem.k), ScalarType::Byte};
      copy = allocate_bytes(codes.layout.bytes());
      bind(problem.b, fill(codes, *copy, bytes_of(b), BlockScaledMatmul::kMnDimOfB));
    }
    sm90::prepare_weight(problem, {prepared.data_ptr(), form}, scratch.data_ptr(), current_stream(kPrepare, device));
    return prepared;
  }
};

std::string candidates(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                       const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                       const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                       bool fast_accum) {
  const BlockScaledProblem problem =
      check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum});
  return BlockScaledMatmul::backends().candidates_text(problem, gpu_of(block_scaled::kOp, a.get_device_index()));
}

}  // namespace

std::string block_scaled_configs() { return BlockScaledMatmul::backends().text(); }

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  tileon::BlockScaledEntry<tileon::Cuda>::add_to(m);
  m.impl("_block_scaled_matmul_candidates", TORCH_BOX(&tileon::candidates));
}
