// matmul on CUDA tensors: its backends, and what is copied before one of them chooses.
#include <torch/csrc/stable/library.h>

#include <iterator>

#include "cuda/dispatch/engine.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "entry/matmul.h"

namespace tileon {
namespace {

// A call goes to the first one that is for the GPU and takes the problem. The portable kernels take every one.
constexpr const Backend* kBackends[] = {&sm90::kDenseBackend, &sm80::kDenseBackend};

// An operand's aligned copy, of elements of `dtype`.
PlannedCopy planned_copy(Operand& operand, int64_t mn, const Problem& problem, DType dtype) {
  const PlannedCopy copy{{operand, problem.batch, mn, problem.k, info(dtype).bytes}, scalar_type(dtype)};
  operand = {copy.layout.at(kNoMemoryYet), dtype, {}};
  return copy;
}

void plan_copy_of_a(Way& way, DType dtype) { way.a = planned_copy(way.problem.a, way.problem.m, way.problem, dtype); }
void plan_copy_of_b(Way& way, DType dtype) { way.b = planned_copy(way.problem.b, way.problem.n, way.problem, dtype); }

// What the first willing backend chooses, after copies where they pay: of an operand as it is where the kernels cannot
// read it well, of both fp8 operands as float16 where the portable kernels, the last backend, cannot read one of them
// well.
Way fastest_way(Way way, const Gpu& gpu) {
  Problem& problem = way.problem;
  const auto copies_pay = [&] { return sm80::pays_for_copies(problem, gpu); };  // asked where a copy is wanted alone
  for (const Backend* backend : kBackends) {
    if (!is_for(*backend, gpu)) continue;
    if (backend == *std::rbegin(kBackends) && sm80::wants_widening(problem, gpu) && copies_pay()) {
      plan_copy_of_a(way, DType::kFloat16);
      plan_copy_of_b(way, DType::kFloat16);
      return fastest_way(way, gpu);  // from the first backend on: they may take float16
    }
    const auto wants_copy = [&](const Operand& operand, int64_t mn) {
      return backend->wants_copy(operand, mn, problem) && copies_pay();
    };
    if (!way.a && wants_copy(problem.a, problem.m)) plan_copy_of_a(way, problem.a.dtype);
    if (!way.b && wants_copy(problem.b, problem.n)) plan_copy_of_b(way, problem.b.dtype);
    way.config = {backend, backend->choose_config(problem, gpu)};
    if (way.config.number >= 0) return way;
  }
  fail_without_backend("matmul", gpu);
}

struct Matmul {
  using Arguments = MatmulArguments;
  static constexpr const char* kOp = "matmul";
  static constexpr int kMnDimOfA = 0, kMnDimOfB = 1;

  static constexpr Backends backends() { return {kBackends}; }
  static Way plan(const Problem& problem, const Gpu& gpu) { return fastest_way({{}, problem, {}, {}}, gpu); }

  // Of operands that are read where they are.
  static Way plan_without_memory(const Problem& problem, const Gpu& gpu) {
    return plan_of(choose_or_fail<Matmul>(problem, gpu, false), problem);
  }
  static Way plan_of(const BackendConfig& config, const Problem& problem) { return {config, problem, {}, {}}; }

  static bool can_measure(const Problem& problem) { return problem.pre_activation == nullptr; }
  static const Tensor& source(const Tensor& operand) { return operand; }
};

struct Cuda : CudaDevice {
  static void run(const Problem& problem, const MatmulArguments& arguments, const Tensor&, const Tensor*,
                  int64_t config) {
    run_product<Matmul>(problem, arguments, config);
  }
};

std::string candidates(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                       const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                       bool allow_tf32, bool fast_accum) {
  const Problem problem = check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum});
  return Matmul::backends().candidates_text(problem, gpu_of(Matmul::kOp, a.get_device_index()));
}

}  // namespace

std::string matmul_configs() { return Matmul::backends().text(); }

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  tileon::MatmulEntry<tileon::Cuda>::add_to(m);
  m.impl("_matmul_candidates", TORCH_BOX(&tileon::candidates));
}
