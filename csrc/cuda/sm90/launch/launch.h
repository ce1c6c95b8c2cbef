// From a problem and a config to a kernel and its parameters, TMA descriptors among them, and the one place that
// launches a Hopper kernel.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "core/formats.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/runtime/dependent_launch.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/tables.h"
#include "cuda/sm90/heuristics/tf32.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// ---- the one place that encodes TMA descriptors. No link to libcuda: the driver is asked at run time ----

// A tensor of up to four dimensions, innermost first.
struct TensorBox {
  int dimensions;
  uint64_t sizes[4];    // elements
  uint64_t strides[4];  // bytes, from dimension 1 on; multiples of 16. The innermost one is dense.
  uint32_t box[4];      // elements of one transfer
};

// Throws std::runtime_error where the driver refuses.
void encode_tensor_map(const void* data, CUtensorMapDataType type, const TensorBox& tensor, CUtensorMapSwizzle swizzle,
                       CUtensorMap& map);

// Of one matrix: rows of codes, or of elements of 16 bits, in boxes of `box_bytes` x `box_rows`.
void map_codes(const Operand& operand, int64_t rows, const Problem& problem, int box_bytes, int box_rows,
               CUtensorMapSwizzle swizzle, CUtensorMap& map);

// ---- a kernel's parameters ----

// The float32 scales of an operand.
inline OperandFactors factors_of(const Operand& operand) {
  const ScaleStrides& strides = operand.scale.strides;
  const bool has_row_blocks = strides.row == 0;
  return {static_cast<const float*>(operand.scale.data), has_row_blocks ? strides.row_block : strides.row, strides.col,
          has_row_blocks ? 7 : 0};
}
static_assert(kScaleBlockRows == 1 << 7);

struct LaunchPlan {
  KernelParams params;
  Major major_a;
  Major major_b;
  int clusters;      // along the grid's x
  int cluster_ctas;  // along y: those that split a tile's k, or share an operand
  int shared_bytes;

  dim3 grid() const { return {static_cast<unsigned>(clusters), static_cast<unsigned>(cluster_ctas), 1}; }
};

// For kernels of this tile and `splits`, which can run the problem; the problem is not empty (k may be 0). Where the
// last tiles are shared, `sharing_ctas` is the number of CTAs, all there are, or of clusters that load together.
LaunchPlan plan_launch(Operands operands, const TileConfig& tile, int splits, const Problem& problem, const Gpu& gpu,
                       int sharing_ctas = 0);

// ---- the launch ----

// A kernel, and on which devices it may have its shared memory already (a bit a device).
template <typename Params>
struct KernelHandle {
  std::atomic<KernelFunction<Params>> function = nullptr;
  std::atomic<uint64_t> allowed = 0;
};

// A column of the grid is a cluster. A kernel that takes more shared memory than any may have is given by its handle,
// with the current GPU.
template <typename Params>
void launch(KernelFunction<Params> kernel, dim3 grid, int threads, int shared_bytes, const Params& params,
            cudaStream_t stream) {
  launch_kernel("launching a Hopper kernel",
                {.grid = grid,
                 .threads = threads,
                 .stream = stream,
                 .shared_bytes = shared_bytes,
                 .cluster = dim3(1, grid.y),
                 .may_overlap = use_dependent_launch()},
                kernel, params);
}

template <typename Params>
void launch(KernelHandle<Params>& kernel, const Gpu& gpu, dim3 grid, int threads, int shared_bytes,
            const Params& params, cudaStream_t stream) {
  const KernelFunction<Params> function = kernel.function;
  allow_shared_memory(reinterpret_cast<const void*>(function), kSmemLimit, gpu.device, kernel.allowed);
  launch(function, grid, threads, shared_bytes, params, stream);
}

// A kernel whose CTAs wait for each other (kernels/stream_k.cuh): all of them are there at once. False, and nothing is
// launched, where the GPU lends fewer SMs than it has.
template <typename Params>
bool launch_together(KernelHandle<Params>& kernel, const Gpu& gpu, const LaunchPlan& plan, int threads,
                     const Params& params, cudaStream_t stream) {
  const KernelFunction<Params> function = kernel.function;
  allow_shared_memory(reinterpret_cast<const void*>(function), kSmemLimit, gpu.device, kernel.allowed);
  return launch_kernel_together("launching a Hopper kernel",
                                {.grid = plan.grid(),
                                 .threads = threads,
                                 .stream = stream,
                                 .shared_bytes = plan.shared_bytes,
                                 .cluster = dim3(1, plan.grid().y),
                                 .may_overlap = use_dependent_launch()},
                                function, params);
}

// ---- the kernels by their configs' numbers. A set has one kernel for each config of a table: what else decides a
// kernel is the set's. Sets are instantiated in instances/ ----

constexpr DType kE4M3 = DType::kFloat8E4M3, kE5M2 = DType::kFloat8E5M2, kE2M1 = DType::kFloat4E2M1;
constexpr DType kF16 = DType::kFloat16, kBF16 = DType::kBFloat16;
constexpr ScaleType kE8M0 = ScaleType::kE8M0;

template <typename Params_, int kCount>
struct KernelSet {
  using Params = Params_;
  static constexpr int kConfigCount = kCount;
};

template <DType kDType, Major kMajorA, Major kMajorB>
struct DenseKernels : KernelSet<KernelParams, kDenseConfigCount> {};

// Of kStreamedConfigs.
template <DType kDType, Major kMajorA, Major kMajorB>
struct StreamedKernels : KernelSet<SharedParams, kStreamedConfigCount> {};

// `kOut`, float16 or bfloat16, is the output that these kernels store through TMA; any other output they store too.
template <DType kA, DType kB, DType kOut>
struct Fp8Kernels : KernelSet<KernelParams, kFp8ConfigCount> {};

struct Bf16x6Kernels : KernelSet<KernelParams, kBf16x6ConfigCount> {};

template <Major kMajorA, Major kMajorB>
struct Tf32Kernels : KernelSet<KernelParams, kTf32ConfigCount> {};

// Of the configs that prepare kOperands, or multiply such codes. `kOut`: as Fp8Kernels'.
template <Operands kOperands>
using ParamsOf = std::conditional_t<has_float32_scales(kOperands), FactorParams,
                                    std::conditional_t<is_by_encoding(kOperands), EncodingParams, ScaledParams>>;
template <Operands kOperands, DType kOut>
struct BlockScaledKernels : KernelSet<ParamsOf<kOperands>, kBlockScaledConfigCount> {};

// Of the configs that decode kCodes.
template <DType kA, DType kB, ScaleType kScale>
struct SmallMKernels : KernelSet<SmallMParams, kBlockScaledConfigCount> {};

// Of the configs that read such a weight straight into registers.
template <DType kA, DType kB, ScaleType kScale>
struct DirectWeightKernels : KernelSet<DirectWeightParams, kBlockScaledConfigCount> {};

// Of the configs that decode a weight of such codes and scales for an `a` of kA. `kOut`: as Fp8Kernels'.
template <DType kA, DType kCode, ScaleType kScale, DType kOut>
struct WeightKernels : KernelSet<WeightParams, kBlockScaledConfigCount> {};

// Of the configs that convert a weight's codes for an `a` of kA.
template <DType kA, DType kB>
struct WeightCodesKernels : KernelSet<SharedFactorParams, kBlockScaledConfigCount> {};

// The same, of codes of e4m3 whose scales change along k.
template <DType kA>
struct WeightBlocksKernels : KernelSet<WeightBlocksParams, kBlockScaledConfigCount> {};

// Of the configs that fold a weight of such codes. `kOut`: as Fp8Kernels'.
template <DType kCode, DType kOut>
struct FoldedWeightKernels : KernelSet<FoldedWeightParams, kBlockScaledConfigCount> {};

// Of the configs of codes with float32 scales of blocks whose tiles CTAs share. `kOut`: as Fp8Kernels'.
template <DType kOut>
struct SharedBlocksKernels : KernelSet<SharedFactorParams, kBlockScaledConfigCount> {};

// Of the sets of decoded weights, and of codes whose tiles CTAs share, the kernels for clusters.
template <typename Set>
struct Clustered : KernelSet<typename Set::Params, Set::kConfigCount> {};

// The kernel of config `config` of the set's table; null where the set has none of it.
template <typename Set>
KernelFunction<typename Set::Params> find_kernel(int config);

// What find_kernel returns, found once.
template <typename Set>
KernelHandle<typename Set::Params>& kernel_of(int config) {
  static std::array<KernelHandle<typename Set::Params>, Set::kConfigCount> kernels;
  auto& kernel = kernels[config];
  if (kernel.function == nullptr) kernel.function = find_kernel<Set>(config);
  return kernel;
}

}  // namespace tileon::sm90
