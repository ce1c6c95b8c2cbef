// Hopper's kernels in a library that was built without them: backends without configs.
#ifndef TILEON_WITH_SM90

#include "cuda/sm90/sm90.h"

namespace tileon::sm90 {
namespace {

constexpr Backend kNoKernels{90,
                             90,
                             [] { return 0; },
                             nullptr,
                             nullptr,
                             nullptr,
                             nullptr,
                             [](const Problem&, const Gpu&) { return Choice{}; },
                             [](Side, const Problem&) { return WantedCopy::kNone; },
                             nullptr,
                             nullptr};

}  // namespace

const Backend kDenseBackend = kNoKernels, kBlockScaledBackend = kNoKernels;

bool is_fold_faster(const Problem&, const Gpu&) { return false; }
bool are_numbers_faster(const Problem&, Format, const Gpu&) { return false; }

const char* why_not_prepare_weight(const Problem&, const Gpu&) {
  return "this library was built without Hopper's kernels";
}
void prepare_weight(const Problem&, const PreparedWeight&, void*, cudaStream_t) {}
int64_t prepare_weight_scratch_bytes(const Problem&) { return 0; }

}  // namespace tileon::sm90

#endif  // TILEON_WITH_SM90
