// matmul on CUDA tensors: its backends, and what is copied before one of them chooses.
#include <torch/csrc/stable/library.h>

#include <iterator>

#include "cuda/dispatch/engine.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"
#include "entry/matmul.h"

namespace tileon {
namespace {

using MatmulWay = Way<GemmProblem>;

// A call goes to the first one that is for the GPU and takes the problem. The portable kernels take every one.
constexpr Backend<GemmProblem> kBackends[] = {
    {90, 90, sm90::config_count, sm90::config_name, sm90::config_dtypes, sm90::why_not, sm90::may_choose,
     sm90::choose_config, sm90::wants_copy, sm90::scratch_bytes, sm90::run},
    {80, 999, sm80::config_count, sm80::config_name, sm80::config_dtypes, sm80::why_not, nullptr, sm80::choose_config,
     sm80::wants_copy, nullptr, sm80::run},
};

void plan_copy_of_a(MatmulWay& way, DType dtype) {
  GemmProblem& problem = way.problem;
  way.a = {{problem.a, problem.batch, problem.m, problem.k, info(dtype).bytes}, scalar_type(dtype)};
  problem.a = way.a->layout.at(kNoMemoryYet);
  problem.dtype = dtype;
}

void plan_copy_of_b(MatmulWay& way, DType dtype) {
  GemmProblem& problem = way.problem;
  way.b = {{problem.b, problem.batch, problem.n, problem.k, info(dtype).bytes}, scalar_type(dtype)};
  problem.b = way.b->layout.at(kNoMemoryYet);
  problem.b_dtype = dtype;
}

// What the first willing backend chooses, after copies where they pay: of an operand as it is where the kernels cannot
// read it well, of both fp8 operands as float16 where the portable kernels, the last backend, cannot read one of them
// well.
MatmulWay fastest_way(MatmulWay way, const Gpu& gpu) {
  GemmProblem& problem = way.problem;
  const auto copies_pay = [&] { return sm80::pays_for_copies(problem, gpu); };  // asked where a copy is wanted alone
  for (const Backend<GemmProblem>& backend : kBackends) {
    if (!backend.is_for(gpu)) continue;
    if (&backend == std::end(kBackends) - 1 && sm80::wants_widening(problem, gpu) && copies_pay()) {
      plan_copy_of_a(way, DType::kFloat16);
      plan_copy_of_b(way, DType::kFloat16);
      return fastest_way(way, gpu);  // from the first backend on: they may take float16
    }
    if (!way.a && backend.wants_copy(problem.a, problem.m, problem) && copies_pay()) plan_copy_of_a(way, problem.dtype);
    if (!way.b && backend.wants_copy(problem.b, problem.n, problem) && copies_pay())
      plan_copy_of_b(way, problem.b_dtype);
    way.config = {&backend, backend.choose_config(problem, gpu)};
    if (way.config.number >= 0) return way;
  }
  fail_without_backend("matmul", gpu);
}

struct Matmul {
  using Problem = GemmProblem;
  using Arguments = MatmulArguments;
  static constexpr const char* kOp = "matmul";
  static constexpr int kMnDimOfA = 0, kMnDimOfB = 1;

  static constexpr Backends<GemmProblem> backends() { return {kBackends}; }

  static MatmulWay plan(const GemmProblem& problem, const Gpu& gpu) { return fastest_way({{}, problem, {}, {}}, gpu); }

  // Of operands that are read where they are.
  static MatmulWay plan_without_memory(const GemmProblem& problem, const Gpu& gpu) {
    const BackendConfig<GemmProblem> config = backends().choose(problem, gpu, false);
    if (config.backend == nullptr) fail_without_backend(kOp, gpu);
    return plan_of(config, problem);
  }

  static MatmulWay plan_of(const BackendConfig<GemmProblem>& config, const GemmProblem& problem) {
    return {config, problem, {}, {}};
  }

  static bool can_measure(const GemmProblem& problem) { return problem.pre_activation == nullptr; }
  static const Tensor& source_of_a(const MatmulArguments& arguments) { return arguments.a; }
  static const Tensor& source_of_b(const MatmulArguments& arguments) { return arguments.b; }
  static void bind_a(GemmProblem& problem, const Operand& operand) { problem.a = operand; }
  static void bind_b(GemmProblem& problem, const Operand& operand) { problem.b = operand; }
};

struct Cuda : CudaDevice {
  static void run(const GemmProblem& problem, const MatmulArguments& arguments, const Tensor&, const Tensor*,
                  int64_t config) {
    run_product<Matmul>(problem, arguments, config);
  }
};

std::string candidates(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                       const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                       bool allow_tf32, bool fast_accum) {
  const GemmProblem problem = check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum});
  return Matmul::backends().candidates_text(problem, gpu_of(Matmul::kOp, a.get_device_index()));
}

}  // namespace

std::string matmul_configs() { return Matmul::backends().text(); }

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  tileon::MatmulEntry<tileon::Cuda>::add_to(m);
  m.impl("_matmul_candidates", TORCH_BOX(&tileon::candidates));
}
