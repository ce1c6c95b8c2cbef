// The kernels by their configs' numbers. A set has one kernel for each config of a table: what else decides a kernel is
// the set's. Sets are instantiated in instances/.
#pragma once

#include <array>
#include <type_traits>

#include "core/dtypes.h"
#include "core/formats.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/tables.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

template <DType kDType, Major kMajorA, Major kMajorB>
struct DenseKernels {
  using Params = KernelParams;
  static constexpr int kConfigCount = kDenseConfigCount;
};

// `kOut`, float16 or bfloat16, is what these store through TMA; they store any other output too.
template <DType kA, DType kB, DType kOut>
struct Fp8Kernels {
  using Params = KernelParams;
  static constexpr int kConfigCount = kFp8ConfigCount;
};

struct Bf16x6Kernels {
  using Params = KernelParams;
  static constexpr int kConfigCount = kBf16x6ConfigCount;
};

// Of the configs that prepare kOperands. `kOut`: as Fp8Kernels'.
template <Operands kOperands, DType kOut>
struct BlockScaledKernels {
  using Params = std::conditional_t<is_by_encoding(kOperands), EncodingParams, ScaledParams>;
  static constexpr int kConfigCount = kBlockScaledConfigCount;
};

// Of the configs that decode kCodes.
template <DType kA, DType kB, ScaleType kScale>
struct SmallMKernels {
  using Params = SmallMParams;
  static constexpr int kConfigCount = kBlockScaledConfigCount;
};

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
