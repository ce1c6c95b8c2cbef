#include "cuda/sm90/main_loop_weight.h"

#include <type_traits>

#include "cuda/elementwise/elementwise.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/launch/launch_sharing.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/operand_prep/prepare.h"

namespace tileon::sm90 {
namespace {

SharingKernels<WeightParams> block_weight_kernels(int config, const Problem& problem) {
  const Operand& weight = problem.b;
  if (problem.a.dtype == kF16)
    return weight.scale.type == kE8M0 ? kernels_of<WeightKernels<kF16, kE2M1, kE8M0, kF16>>(config)
                                      : kernels_of<WeightKernels<kF16, kE2M1, ScaleType::kE4M3, kF16>>(config);
  const auto of = [&](auto code, auto scale) {
    return problem.out_dtype == kF16 ? kernels_of<WeightKernels<kBF16, code.value, scale.value, kF16>>(config)
                                     : kernels_of<WeightKernels<kBF16, code.value, scale.value, kBF16>>(config);
  };
  const std::integral_constant<DType, kE4M3> e4m3;
  const std::integral_constant<DType, kE2M1> e2m1;
  const std::integral_constant<ScaleType, kE8M0> of_e8m0;
  if (weight.dtype == kE4M3) return of(e4m3, of_e8m0);
  if (weight.scale.type == kE8M0) return of(e2m1, of_e8m0);
  return of(e2m1, std::integral_constant<ScaleType, ScaleType::kE4M3>());
}

DecodedScratch decoded_scratch(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  const StreamK stream = share_tiles(config, problem, gpu.sm_count).stream;
  return DecodedScratch(problem, gpu.sm_count * decoding_warps(config.tile), shared_bytes(config, stream));
}

// Returns the device flag that says where an operand's elements lost something.
DeviceFlag run_block_weight(int config, const Problem& problem, const Gpu& gpu, uint8_t* memory, cudaStream_t stream) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  const DecodedScratch place = decoded_scratch(chosen, problem, gpu);
  auto* words = reinterpret_cast<uint32_t*>(memory + place.words);
  if (problem.is_block_scaled()) {
    Problem rows_of_a = problem;
    rows_of_a.n = 0;
    const PreparedOperand a{memory, nullptr};
    run_prepare_bfloat16({scaled_kernel_problem(rows_of_a), a, {}, segments_of_a(problem), words, nullptr, nullptr},
                         stream);
  }
  const Scale& scale = problem.b.scale;
  const int columns_of_stage = chosen.tile.block_k / static_cast<int>(scale.vec);
  const bool may_lose = may_lose_decoding(problem);
  uint32_t* lost = may_lose ? words + place.prepare_words : nullptr;
  const int ctas = launch_sharing(block_weight_kernels(config, problem), chosen, with_rows_of_a(problem, memory), gpu,
                                  memory + place.sums, stream, [&](const KernelParams& params) {
                                    return WeightParams{params,
                                                        static_cast<const uint8_t*>(scale.data),
                                                        scale.strides.row_block,
                                                        columns_of_stage < kScaleBlockCols ? 1 : 0,
                                                        static_cast<int>(problem.k / scale.vec),
                                                        problem.global_scale,
                                                        problem.global_scale_stride,
                                                        lost};
                                  });
  if (!may_lose && !has_codes_of_e4m3(problem)) return {};
  return {words, place.prepare_words + (may_lose ? ctas * decoding_warps(chosen.tile) : 0), true};
}

SharingKernels<SharedFactorParams> weight_codes_kernels(int config, DType a, DType b) {
  if (a == kF16)
    return b == kE4M3 ? kernels_of<WeightCodesKernels<kF16, kE4M3>>(config)
                      : kernels_of<WeightCodesKernels<kF16, DType::kInt8>>(config);
  return b == kE4M3 ? kernels_of<WeightCodesKernels<kBF16, kE4M3>>(config)
                    : kernels_of<WeightCodesKernels<kBF16, DType::kInt8>>(config);
}

void run_weight_codes(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  launch_sharing(weight_codes_kernels(config, problem.a.dtype, problem.b.dtype), kBlockScaledConfigs[config], problem,
                 gpu, scratch, stream, [&](const KernelParams& params) {
                   return SharedFactorParams{{params, {}, factors_of(problem.b), problem.global_scale}};
                 });
}

// Where scales change along k: each CTA's sums that wait for the end of their tile. They lie in front of the sums that
// CTAs hand over.
int64_t aside_bytes(const KernelConfig& config, const Gpu& gpu) {
  return config.operands == Operands::kWeightBlocks ? gpu.sm_count * sums_bytes(config.tile) : 0;
}

void run_weight_blocks(int config, const Problem& problem, const Gpu& gpu, uint8_t* memory, cudaStream_t stream) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  const auto kernels = problem.a.dtype == kF16 ? kernels_of<WeightBlocksKernels<kF16>>(config)
                                               : kernels_of<WeightBlocksKernels<kBF16>>(config);
  launch_sharing(kernels, chosen, problem, gpu, memory + aside_bytes(chosen, gpu), stream,
                 [&](const KernelParams& params) {
                   return WeightBlocksParams{{{params, {}, factors_of(problem.b), problem.global_scale}},
                                             reinterpret_cast<float4*>(memory)};
                 });
}

// ---- folds, the weight's in the main loop ----

KernelHandle<FoldedWeightParams>& folded_weight_kernel(int config, DType code, DType out) {
  if (code == kE2M1)
    return out == kF16 ? kernel_of<FoldedWeightKernels<kE2M1, kF16>>(config)
                       : kernel_of<FoldedWeightKernels<kE2M1, kBF16>>(config);
  return out == kF16 ? kernel_of<FoldedWeightKernels<kE4M3, kF16>>(config)
                     : kernel_of<FoldedWeightKernels<kE4M3, kBF16>>(config);
}

FoldedScratch folded_scratch(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return {problem, shared_bytes(config, share_tiles(config, problem, gpu.sm_count).stream)};
}

void run_folded_weight(int config, const Problem& problem, const Gpu& gpu, uint8_t* memory, cudaStream_t stream) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  const FoldedScratch place = folded_scratch(chosen, problem, gpu);
  auto* scales_a = reinterpret_cast<float*>(memory + place.scales_a);
  auto* scales_b = reinterpret_cast<float*>(memory + place.scales_b);
  auto* factors = reinterpret_cast<uint32_t*>(memory + place.factors);
  const bool is_interleaved = problem.b.dtype == kE2M1;
  run_fold_with_factors({problem.a, problem.m, problem.k, memory, place.pitch_a, scales_a, is_interleaved},
                        {problem.b, problem.n, problem.k, factors, place.factors_stride, scales_b},
                        use_dependent_launch(), stream);
  Problem folded = problem;
  folded.a = {{memory, place.pitch_a, 1, 0}, kE4M3, {}};
  const SharingKernels<FoldedWeightParams> kernels{folded_weight_kernel(config, problem.b.dtype, problem.out_dtype)};
  launch_sharing(kernels, chosen, folded, gpu, memory + place.sums, stream, [&](const KernelParams& params) {
    const OperandFactors of_a{scales_a, 1, 0, 0}, of_b{scales_b, 1, 0, 0};
    return FoldedWeightParams{
        {{params, of_a, of_b, problem.global_scale}}, factors, place.factors_stride, kStagesOfFoldedSums};
  });
}

}  // namespace

int64_t main_loop_weight_scratch_bytes(int config, const Problem& problem, const Gpu& gpu) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  if (chosen.operands == Operands::kWeightCodes || chosen.operands == Operands::kWeightBlocks)
    return aside_bytes(chosen, gpu) + shared_bytes(chosen, share_tiles(chosen, problem, gpu.sm_count).stream);
  if (is_folded_weight(chosen.operands)) return folded_scratch(chosen, problem, gpu).bytes;
  return decoded_scratch(chosen, problem, gpu).bytes;
}

DeviceFlag run_main_loop_weight(int config, const Problem& problem, const Gpu& gpu, void* scratch,
                                cudaStream_t stream) {
  auto* memory = static_cast<uint8_t*>(scratch);
  const Operands operands = kBlockScaledConfigs[config].operands;
  if (operands == Operands::kFp4Weight || operands == Operands::kMxfp8Weight)
    return run_block_weight(config, problem, gpu, memory, stream);
  if (operands == Operands::kWeightCodes) {
    run_weight_codes(config, problem, gpu, scratch, stream);
  } else if (operands == Operands::kWeightBlocks) {
    run_weight_blocks(config, problem, gpu, memory, stream);
  } else {
    run_folded_weight(config, problem, gpu, memory, stream);
  }
  return {};
}

}  // namespace tileon::sm90
