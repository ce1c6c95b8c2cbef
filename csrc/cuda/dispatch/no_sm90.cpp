// Hopper's kernels in a library that was built without them: a backend without configs.
#ifndef TILEON_WITH_SM90

#include "cuda/sm90/sm90.h"

namespace tileon::sm90 {

int config_count() { return 0; }
const char* config_name(int) { return ""; }
std::string config_dtypes(int) { return ""; }
const char* why_not(int, const GemmProblem&, const Gpu&) { return ""; }
bool may_choose(int, const GemmProblem&) { return false; }
int choose_config(const GemmProblem&, const Gpu&) { return -1; }
bool wants_copy(const Operand&, int64_t, const GemmProblem&) { return false; }
int64_t scratch_bytes(int, const GemmProblem&) { return 0; }
DeviceFlag run(int, const GemmProblem&, const Gpu&, void*, cudaStream_t) { return {}; }

int block_scaled_config_count() { return 0; }
const char* block_scaled_config_name(int) { return ""; }
std::string block_scaled_config_formats(int) { return ""; }
const char* why_not(int, const BlockScaledProblem&, const Gpu&) { return ""; }
bool may_choose(int, const BlockScaledProblem&) { return false; }
int choose_config(const BlockScaledProblem&, const Gpu&) { return -1; }
int64_t scratch_bytes(int, const BlockScaledProblem&) { return 0; }
DeviceFlag run(int, const BlockScaledProblem&, const Gpu&, void*, cudaStream_t) { return {}; }

const char* why_not_prepare_weight(const BlockScaledProblem&, const Gpu&) {
  return "this library was built without Hopper's kernels";
}
void prepare_weight(const BlockScaledProblem&, const PreparedWeight&, void*, cudaStream_t) {}
int64_t prepare_weight_scratch_bytes(const BlockScaledProblem&) { return 0; }

}  // namespace tileon::sm90

#endif  // TILEON_WITH_SM90
