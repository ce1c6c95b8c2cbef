// Every plain load and store of the kernels: g++ -fsanitize=thread puts calls of these functions there. Its own
// library, which has them too, is never linked.
#include "guarded.h"
#include "order.h"
#include "state.h"

extern "C" __attribute__((visibility("hidden"))) char __ehdr_start, _end;  // of this library

namespace tileon::simulation {

namespace {

// Whether it was to shared memory of a CTA of the cluster.
bool see_shared(Access kind, const void* address, size_t bytes, const Site& where) {
  for (Cta* cta : current->cta->cluster->ctas) {
    const int64_t at = static_cast<const unsigned char*>(address) - cta->window;
    if (at < 0 || at >= int64_t{kWindowEnd}) continue;
    shared_of(*cta, static_cast<uint32_t>(at), static_cast<uint32_t>(bytes));
    if (kind != Access::kRead && cta == current->cta)
      wrote_shared(static_cast<uint32_t>(at), static_cast<uint32_t>(bytes));
    note(kind, address, bytes, where);
    return true;
  }
  return false;
}

void see(Access kind, const void* address, size_t bytes, const void* from) {
  if (current == nullptr || bytes == 0) return;
  const auto at = static_cast<const unsigned char*>(address);
  if (static_cast<size_t>(at - current->stack) < kStackBytes) return;
  const auto* begin = reinterpret_cast<const unsigned char*>(&__ehdr_start);
  if (static_cast<size_t>(at - begin) < static_cast<size_t>(reinterpret_cast<const unsigned char*>(&_end) - begin))
    return;
  const Site where = Site::of_call(from);
  current->where = where;
  current->doing = "a plain access";
  if (see_shared(kind, address, bytes, where) || !is_guarded(address)) return;
  expect_waited_for_grid();
  expect_inside(address, bytes);
  note(kind, address, bytes, where);
}

}  // namespace

void atomic_access(const void* address, uint32_t bytes) {
  if (kSeesAccesses) see(Access::kAtomic, address, bytes, __builtin_return_address(0));
}

}  // namespace tileon::simulation

#ifdef TILEON_SEES_ACCESSES

using tileon::simulation::Access;

#define TILEON_SEE(name, kind, bytes) \
  void __tsan_##name(void* address) { tileon::simulation::see(kind, address, bytes, __builtin_return_address(0)); }
#define TILEON_SEE_BOTH(bytes)                            \
  TILEON_SEE(read##bytes, Access::kRead, bytes)           \
  TILEON_SEE(write##bytes, Access::kWrite, bytes)         \
  TILEON_SEE(unaligned_read##bytes, Access::kRead, bytes) \
  TILEON_SEE(unaligned_write##bytes, Access::kWrite, bytes)

extern "C" {

void __tsan_init() {}
TILEON_SEE_BOTH(1)
TILEON_SEE_BOTH(2)
TILEON_SEE_BOTH(4)
TILEON_SEE_BOTH(8)
TILEON_SEE_BOTH(16)
void __tsan_read_range(void* address, size_t bytes) {
  tileon::simulation::see(Access::kRead, address, bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* address, size_t bytes) {
  tileon::simulation::see(Access::kWrite, address, bytes, __builtin_return_address(0));
}

// The host's, beside the kernels: guards of local statics, and bits of what was done already.
uint8_t __tsan_atomic8_load(const uint8_t* word, int order) { return __atomic_load_n(word, order); }
uint64_t __tsan_atomic64_load(const uint64_t* word, int order) { return __atomic_load_n(word, order); }
uint64_t __tsan_atomic64_fetch_or(uint64_t* word, uint64_t bits, int order) {
  return __atomic_fetch_or(word, bits, order);
}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
}

#endif
