// block_scaled_matmul on CUDA tensors: its backends, and what is copied for them. Weights that are prepared beforehand.
#include <torch/csrc/stable/library.h>

#include "cuda/dispatch/engine.h"
#include "cuda/dispatch/scaled_mm.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "entry/block_scaled.h"

namespace tileon {
namespace {

// A call goes to the first one that is for the GPU and takes the problem. The portable kernels take every one.
constexpr const Backend* kBackends[] = {&sm90::kBlockScaledBackend, &scaled_mm::kBackend, &sm80::kBlockScaledBackend};

// The aligned copy of an operand's codes, if the kernels want one: every backend wants those that the portable one
// does.
std::optional<PlannedCopy> planned_copy(const Operand& operand, int64_t rows, const Problem& problem) {
  if (!sm80::kBlockScaledBackend.wants_copy(operand, rows, problem)) return std::nullopt;
  return PlannedCopy{copy_of_codes(operand, rows, problem.k), ScalarType::Byte};
}

struct BlockScaledMatmul {
  using Arguments = BlockScaledArguments;
  static constexpr const char* kOp = block_scaled::kOp;
  static constexpr int kMnDimOfA = 0, kMnDimOfB = 0;

  static constexpr Backends backends() { return {kBackends}; }
  static Way plan(const Problem& problem, const Gpu& gpu) {
    return plan_of(choose_or_fail<BlockScaledMatmul>(problem, gpu, true), problem);
  }
  static Way plan_without_memory(const Problem& problem, const Gpu& gpu) {
    return plan_of(choose_or_fail<BlockScaledMatmul>(problem, gpu, false), problem);
  }

  // Copies are planned after the choice, which does not depend on them.
  static Way plan_of(const BackendConfig& config, const Problem& problem) {
    return {config, problem, planned_copy(problem.a, problem.m, problem), planned_copy(problem.b, problem.n, problem)};
  }

  static bool can_measure(const Problem& problem) { return problem.prepared_b.data == nullptr; }

  // The codes as bytes: torch has no kernels that copy fp4.
  static Tensor source(const Tensor& codes) {
    return torch::stable::from_blob(codes.data_ptr(), codes.sizes(), codes.strides(), codes.device(), ScalarType::Byte);
  }
};

struct Cuda : CudaDevice {
  static void require_prepared(const char*) {}

  static void run(const Problem& problem, const BlockScaledArguments& arguments, const Tensor&, int64_t config) {
    run_product<BlockScaledMatmul>(problem, arguments, config);
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
    std::optional<Tensor> copy;
    if (const auto codes = planned_copy(problem.b, problem.n, problem)) {
      copy = allocate_bytes(codes->layout.bytes());
      fill(*codes, *copy, BlockScaledMatmul::source(b), BlockScaledMatmul::kMnDimOfB, problem.b);
    }
    sm90::prepare_weight(problem, {prepared.data_ptr(), form}, scratch.data_ptr(), current_stream(kPrepare, device));
    return prepared;
  }
};

std::string candidates(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                       const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                       const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                       bool fast_accum) {
  const Problem problem =
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
