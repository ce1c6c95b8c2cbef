#include "cuda/sm80/sm80.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <stdexcept>
#include <string>

#include "cuda/sm80/block_scaled/operand_access.h"
#include "cuda/sm80/heuristics/block_scaled.h"
#include "cuda/sm80/heuristics/dense.h"
#include "cuda/sm80/registry/block_scaled.h"
#include "cuda/sm80/registry/dense.h"

namespace tileon::sm80 {
namespace {

template <typename Element>
bool run_mma_majors(int row, const Problem& problem, cudaStream_t stream) {
  if (kRows[row].tile.family == Family::kMmaGather) return run_mma<Element, Major::kK, Major::kK>(row, problem, stream);
  const int bytes = info(problem.a.dtype).bytes;
  const Major a = operand_access(problem.a, problem.batch, problem.m, problem.k, bytes).major;
  const Major b = operand_access(problem.b, problem.batch, problem.n, problem.k, bytes).major;
  if (a == Major::kK) {
    return b == Major::kK ? run_mma<Element, Major::kK, Major::kK>(row, problem, stream)
                          : run_mma<Element, Major::kK, Major::kMn>(row, problem, stream);
  }
  return b == Major::kK ? run_mma<Element, Major::kMn, Major::kK>(row, problem, stream)
                        : run_mma<Element, Major::kMn, Major::kMn>(row, problem, stream);
}

template <typename ElementA, typename ElementB>
bool run_float8(int row, const Problem& problem, cudaStream_t stream) {
  if (kRows[row].tile.family == Family::kMmaGather) return run_gather_float8(row, problem, stream);
  return run_mma<ElementA, Major::kK, Major::kK, ElementB>(row, problem, stream);
}

bool run_kind(int row, const Problem& problem, cudaStream_t stream) {
  switch (kind_of(problem)) {
    case Kind::kFloat16:
      return run_mma_majors<__half>(row, problem, stream);
    case Kind::kBFloat16:
      return run_mma_majors<__nv_bfloat16>(row, problem, stream);
    case Kind::kTf32:
      return run_mma_majors<float>(row, problem, stream);
    case Kind::kFloat32:
      return run_simt(row, problem, stream) || run_skinny(row, problem, stream);
    case Kind::kFloat64:
      return run_dmma(row, problem, stream);
    case Kind::kE4M3:
      return run_float8<__nv_fp8_e4m3, __nv_fp8_e4m3>(row, problem, stream);
    case Kind::kE4M3E5M2:
      return run_float8<__nv_fp8_e4m3, __nv_fp8_e5m2>(row, problem, stream);
    case Kind::kE5M2E4M3:
      return run_float8<__nv_fp8_e5m2, __nv_fp8_e4m3>(row, problem, stream);
    case Kind::kE5M2:
      return run_float8<__nv_fp8_e5m2, __nv_fp8_e5m2>(row, problem, stream);
  }
  return false;
}

namespace dense {

int config_count() { return kDenseConfigCount; }
const char* config_name(int row) { return kRows[row].name; }

std::string config_dtypes(int row) {
  constexpr const char* names[] = {"float16",
                                   "bfloat16",
                                   "tf32",
                                   "float32",
                                   "float64",
                                   "float8_e4m3fn",
                                   "float8_e4m3fn*float8_e5m2",
                                   "float8_e5m2*float8_e4m3fn",
                                   "float8_e5m2"};  // in the order of Kind
  std::string text;
  for (int kind = 0; kind < kKindCount; ++kind)
    if (kRows[row].kinds & bit(static_cast<Kind>(kind))) text += (text.empty() ? "" : ",") + std::string(names[kind]);
  return text;
}

const char* why_not(int row, const Problem& problem, const Gpu& gpu) { return why_not(kRows[row], problem, gpu); }
int choose_config(const Problem& problem, const Gpu& gpu) { return choose(problem, gpu); }

bool wants_copy(const Operand& operand, int64_t mn, const Problem& problem) {
  const Kind kind = kind_of(problem);
  if (kind == Kind::kFloat32 || kind == Kind::kFloat64) return false;  // the SIMT kernels read any stride at full rate
  return !is_float8(problem.a.dtype) && !reads_vectors(operand, problem, mn);  // of fp8, wants_widening decides
}

DeviceFlag run(int row, const Problem& problem, const Gpu&, void*, cudaStream_t stream) {
  if (!run_kind(row, problem, stream)) throw std::runtime_error("tileon: this row has no kernel for this dtype");
  return {};
}

}  // namespace dense

namespace block_scaled {

int config_count() { return kBlockScaledConfigCount; }
const char* config_name(int row) { return kBlockScaledConfigs[row].name; }
std::string config_formats(int) { return "mxfp8,mxfp4,mixed,nvfp4"; }
const char* why_not(int row, const Problem&, const Gpu& gpu) { return why_not(kBlockScaledConfigs[row], gpu); }
int choose_config(const Problem& problem, const Gpu& gpu) { return choose_block_scaled(problem, gpu); }

bool wants_copy(const Operand& operand, int64_t rows, const Problem& problem) {
  return !reads_rows(operand, problem.b.scale.type, rows, problem.k);
}

DeviceFlag run(int row, const Problem& problem, const Gpu&, void*, cudaStream_t stream) {
  constexpr auto e4m3 = DType::kFloat8E4M3, e2m1 = DType::kFloat4E2M1;
  constexpr auto e8m0 = ScaleType::kE8M0;
  const DType a = problem.a.dtype, b = problem.b.dtype;
  if (problem.b.scale.type == ScaleType::kE4M3) {
    run_block_scaled<e2m1, e2m1, ScaleType::kE4M3>(row, problem, stream);
  } else if (a == e4m3) {
    b == e4m3 ? run_block_scaled<e4m3, e4m3, e8m0>(row, problem, stream)
              : run_block_scaled<e4m3, e2m1, e8m0>(row, problem, stream);
  } else {
    b == e4m3 ? run_block_scaled<e2m1, e4m3, e8m0>(row, problem, stream)
              : run_block_scaled<e2m1, e2m1, e8m0>(row, problem, stream);
  }
  return {};
}

}  // namespace block_scaled
}  // namespace

const Backend kDenseBackend{80,
                            999,
                            dense::config_count,
                            dense::config_name,
                            dense::config_dtypes,
                            nullptr,
                            dense::why_not,
                            nullptr,
                            dense::choose_config,
                            dense::wants_copy,
                            nullptr,
                            dense::run};
const Backend kBlockScaledBackend{80,
                                  999,
                                  block_scaled::config_count,
                                  block_scaled::config_name,
                                  block_scaled::config_formats,
                                  nullptr,
                                  block_scaled::why_not,
                                  nullptr,
                                  block_scaled::choose_config,
                                  block_scaled::wants_copy,
                                  nullptr,
                                  block_scaled::run};

bool pays_for_copies(const Problem& problem, const Gpu& gpu) { return copies_pay(problem, gpu); }
bool wants_widening(const Problem& problem, const Gpu& gpu) { return widens_float8(problem, gpu); }

}  // namespace tileon::sm80
