// torch's memory for CPU tensors as a GPU's: it begins at multiples of 512 bytes, what nobody has written is NaN, and
// nothing beside it may be touched.
#include <c10/core/CPUAllocator.h>

#include "guarded.h"

namespace {

constexpr size_t kAlignment = 512;  // of torch's allocator for GPUs

struct GuardedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &tileon::simulation::free_guarded, cpu};
    void* data = tileon::simulation::allocate_guarded(bytes, true, kAlignment);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "the simulated GPU has no ", bytes, " bytes");
    return {data, data, &tileon::simulation::free_guarded, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &tileon::simulation::free_guarded; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

const bool is_set = [] {
  c10::SetCPUAllocator(new GuardedAllocator, 100);  // tensors outlive what is destroyed when the process ends
  return true;
}();

}  // namespace
