// A CTA's shared memory, and what the async proxy knows of it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "state.h"

namespace tileon::simulation {

namespace {

// Where a CTA's window lies in the host's memory: the dynamic memory ends, up to 127 bytes, where a page begins that
// cannot be touched; behind that page lies what is static.
struct Region {
  unsigned char* end_of_dynamic;
  unsigned char* window;
  bool taken;
};
std::vector<Region> regions;
constexpr size_t kMaxDynamic = 228 * 1024, kStaticBytes = 256 * 1024;

Region new_region() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t dynamic = (kMaxDynamic + page - 1) / page * page;
  void* memory = mmap(nullptr, dynamic + kStaticBytes + 3 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* begin = static_cast<unsigned char*>(memory);
  mprotect(begin, page, PROT_NONE);
  mprotect(begin + page + dynamic, page, PROT_NONE);
  mprotect(begin + 2 * page + dynamic + kStaticBytes, page, PROT_NONE);
  return {begin + page + dynamic, nullptr, false};
}

[[noreturn]] void out_of_window(const Cta& cta, uint32_t address, uint32_t bytes) {
  fault("shared address " + std::to_string(address) + ", " + std::to_string(bytes) + " bytes, is beyond the CTA's " +
        std::to_string(cta.grid->dynamic_bytes) + " bytes from " + std::to_string(kDynamicBegin) + " on");
}

void expect_aligned(uint32_t address, uint32_t alignment) {
  if (address % alignment != 0)
    fault("shared address " + std::to_string(address) + " is no multiple of " + std::to_string(alignment));
}

constexpr uint16_t kFenced = 0x8000;  // in Cta::writer, beside the thread's number + 1

}  // namespace

unsigned char* take_window(uint32_t dynamic_bytes) {
  auto found = std::find_if(regions.begin(), regions.end(), [](const Region& region) { return !region.taken; });
  if (found == regions.end()) found = regions.insert(regions.end(), new_region());
  found->taken = true;
  const uint32_t rounded = (dynamic_bytes + 127) / 128 * 128;
  found->window = found->end_of_dynamic - rounded - kDynamicBegin;
  std::memset(found->window + kDynamicBegin, kPoison, rounded);
  return found->window;
}

void give_window_back(unsigned char* window) {
  for (Region& region : regions)
    if (region.taken && region.window == window) region.taken = false;
}

unsigned char* dynamic_shared(uint32_t alignment) {
  expect_aligned(kDynamicBegin, alignment);
  return current->cta->window + kDynamicBegin;
}

void* static_shared(const void* type, uint32_t bytes, uint32_t alignment) {
  Cta& cta = *current->cta;
  for (const Cta::Static& object : cta.statics)
    if (object.type == type) return cta.window + object.address;
  const uint32_t address = (cta.static_end + alignment - 1) / alignment * alignment;
  if (address + bytes > kWindowEnd) fault("the kernel's static shared memory is larger than is simulated");
  cta.statics.push_back({type, address, bytes});
  cta.static_end = address + bytes;
  std::memset(cta.window + address, kPoison, bytes);
  return cta.window + address;
}

uint32_t shared_address(const void* pointer) {
  const Cta& cta = *current->cta;
  const auto address = static_cast<const unsigned char*>(pointer) - cta.window;
  const bool dynamic = address >= kDynamicBegin && address <= int64_t{kDynamicBegin} + cta.grid->dynamic_bytes;
  if (!dynamic && (address < kStaticBegin || address > cta.static_end)) fault("a pointer that is not to shared memory");
  return static_cast<uint32_t>(address);
}

unsigned char* shared_of(Cta& cta, uint32_t address, uint32_t bytes) {
  const uint32_t dynamic = cta.grid->dynamic_bytes;
  if (address - kDynamicBegin <= dynamic && address - kDynamicBegin + bytes <= dynamic) return cta.window + address;
  if (address < kStaticBegin || address + bytes > cta.static_end) out_of_window(cta, address, bytes);
  return cta.window + address;
}

const unsigned char* shared_for_load(uint32_t address, uint32_t bytes, uint32_t alignment, Site where) {
  enter("ld.shared", where);
  expect_aligned(address, alignment);
  const unsigned char* place = shared_of(*current->cta, address, bytes);
  note(Access::kRead, place, bytes, where);
  return place;
}

unsigned char* shared_for_store(uint32_t address, uint32_t bytes, uint32_t alignment, Site where) {
  enter("st.shared", where);
  expect_aligned(address, alignment);
  unsigned char* place = shared_of(*current->cta, address, bytes);
  wrote_shared(address, bytes);
  note(Access::kWrite, place, bytes, where);
  return place;
}

uint32_t map_to_cta(uint32_t address, uint32_t rank) {
  if (rank >= current->cta->cluster->ctas.size()) fault("mapa of a CTA that the cluster has not");
  return (address & 0xffffff) | (rank + 1) << 24;
}

Cta& cta_of_cluster(uint32_t rank) {
  const Cluster& cluster = *current->cta->cluster;
  if (rank >= cluster.ctas.size()) fault("an address of a CTA that the cluster has not");
  Cta& cta = *cluster.ctas[rank];
  if (cta.alive == 0) fault("shared memory of CTA " + std::to_string(rank) + " of the cluster, which has ended");
  return cta;
}

const unsigned char* cluster_for_load(uint32_t address, uint32_t bytes, uint32_t alignment, Site where) {
  enter("ld.shared::cluster", where);
  expect_aligned(address, alignment);
  const uint32_t rank = address >> 24;
  Cta& cta = rank == 0 ? *current->cta : cta_of_cluster(rank - 1);
  const unsigned char* place = shared_of(cta, address & 0xffffff, bytes);
  note(Access::kRead, place, bytes, where);
  return place;
}

// PTX ISA, "Async proxy": what a thread wrote in the ordinary way is known to TMA and wgmma behind a fence of that
// thread and, where another thread asks for their work, an instruction that makes it known to that one.

void wrote_shared(uint32_t address, uint32_t bytes) {
  Cta& cta = *current->cta;
  const auto self = static_cast<uint16_t>(current->index + 1);
  cta.any_writer = true;
  for (uint32_t place = address / 8; place <= (address + bytes - 1) / 8; ++place) {
    if (cta.writer[place] == self) continue;
    cta.writer[place] = self;
    current->unfenced.push_back(place);
  }
}

void fence_proxy_async(Site where) {
  if (!enter("fence.proxy.async", where)) return;
  Cta& cta = *current->cta;
  const auto self = static_cast<uint16_t>(current->index + 1);
  for (const uint32_t place : current->unfenced) {
    if (cta.writer[place] != self) continue;
    cta.writer[place] = self | kFenced;
    current->unpublished.push_back(place);
  }
  current->unfenced.clear();
}

void fence_mbarrier_init(Site where) {
  if (!enter("fence.mbarrier_init", where)) return;
  Cta& cta = *current->cta;
  const auto self = static_cast<uint16_t>(current->index + 1);
  std::vector<uint32_t> others;
  for (const uint32_t place : current->unfenced) {
    const bool is_barrier = std::find(cta.mbarriers.begin(), cta.mbarriers.end(), place * 8) != cta.mbarriers.end();
    if (!is_barrier) {
      others.push_back(place);
    } else if (cta.writer[place] == self) {
      cta.writer[place] = self | kFenced;
      current->unpublished.push_back(place);
    }
  }
  current->unfenced.swap(others);
}

void publish_writes() {
  if (current->unpublished.empty()) return;
  Cta& cta = *current->cta;
  const auto fenced = static_cast<uint16_t>((current->index + 1) | kFenced);
  for (const uint32_t place : current->unpublished)
    if (cta.writer[place] == fenced) cta.writer[place] = 0;
  current->unpublished.clear();
}

void expect_fenced(Cta& cta, uint32_t address, uint32_t bytes, const Fiber* reader, const char* what) {
  if (!cta.any_writer) return;
  for (uint32_t place = address / 8; place <= (address + bytes - 1) / 8; ++place) {
    const uint16_t writer = cta.writer[place];
    if (writer == 0) continue;
    const int thread = (writer & ~kFenced) - 1;
    if ((writer & kFenced) != 0 && reader != nullptr && reader->index == thread) continue;
    fault(std::string(what) + " uses shared address " + std::to_string(place * 8) + ", which thread " +
          std::to_string(thread) + " wrote " +
          ((writer & kFenced) != 0 ? "and fenced, but nothing orders that before this"
                                   : "without a fence for the async proxy"));
  }
}

void forget_writers(Cta& cta, uint32_t address, uint32_t bytes) {
  if (!cta.any_writer) return;
  std::fill(cta.writer.begin() + address / 8, cta.writer.begin() + (address + bytes + 7) / 8, uint16_t{0});
}

}  // namespace tileon::simulation
