// torch's memory for CPU tensors as a GPU's: it begins at multiples of 512 bytes, what nobody has written is NaN, and
// the pages around it cannot be touched.
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

namespace {

constexpr size_t kAlignment = 512;  // of torch's allocator for GPUs
constexpr size_t kPage = 4096;
constexpr unsigned char kPoison = 0xff;

struct Mapping {
  void* begin;
  size_t bytes;
};
std::mutex mutex;
auto& mappings = *new std::unordered_map<void*, Mapping>;  // by address, which is all that torch keeps

void release(void* data) {
  const std::lock_guard lock(mutex);
  const auto found = mappings.find(data);
  if (found == mappings.end()) return;
  munmap(found->second.begin, found->second.bytes);
  mappings.erase(found);
}

struct GuardedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    const size_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t inner = (aligned + kPage - 1) / kPage * kPage, all = inner + 2 * kPage;
    void* memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, memory != MAP_FAILED, "the simulated GPU has no ", bytes, " bytes");
    auto* begin = static_cast<unsigned char*>(memory) + kPage;
    mprotect(begin, inner, PROT_READ | PROT_WRITE);
    unsigned char* data = begin + inner - aligned;
    std::memset(data, kPoison, aligned);
    const std::lock_guard lock(mutex);
    mappings[data] = {memory, all};
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

const bool is_set = [] {
  c10::SetCPUAllocator(new GuardedAllocator, 100);  // tensors outlive what is destroyed when the process ends
  return true;
}();

}  // namespace
