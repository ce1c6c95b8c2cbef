#include "guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "state.h"

namespace tileon::simulation {

namespace {

struct Guarded {
  unsigned char* pages;
  size_t page_bytes;
  unsigned char* data;
  size_t bytes;
};
std::mutex mutex;                                 // torch allocates from several threads
auto& all = *new std::map<const void*, Guarded>;  // by the first page's address
std::atomic<uint64_t> frees = 0;
constexpr unsigned char kPadding = 0xa5;

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// The one whose pages an address lies in; of zero bytes, where there is none.
Guarded guarded_at(const void* address) {
  static Guarded last{};
  static uint64_t frees_then = 0;
  const auto is_in = [address](const Guarded& one) {
    return static_cast<size_t>(static_cast<const unsigned char*>(address) - one.pages) < one.page_bytes;
  };
  if (frees_then == frees && is_in(last)) return last;
  const std::lock_guard lock(mutex);
  auto found = all.upper_bound(address);
  if (found == all.begin() || !is_in((--found)->second)) return {};
  frees_then = frees;
  return last = found->second;
}

std::string place_in(const Guarded& one, const void* address) {
  const long at = static_cast<const unsigned char*>(address) - one.data, bytes = static_cast<long>(one.bytes);
  const std::string tensor = " a tensor of " + std::to_string(bytes);
  if (at < 0) return std::to_string(-at) + " bytes before" + tensor;
  return at < bytes ? "byte " + std::to_string(at) + " of" + tensor
                    : std::to_string(at - bytes) + " bytes behind the end of" + tensor;
}

}  // namespace

void* allocate_guarded(size_t bytes, bool at_end, size_t alignment) {
  const size_t page = page_size(), rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  const size_t inner = (rounded + page - 1) / page * page;
  void* memory =
      mmap(nullptr, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* pages = static_cast<unsigned char*>(memory);
  mprotect(pages, page, PROT_NONE);
  mprotect(pages + page + inner, page, PROT_NONE);
  unsigned char* data = pages + page + (at_end ? (inner - bytes) / alignment * alignment : 0);
  std::memset(pages + page, kPadding, static_cast<size_t>(data - pages) - page);
  std::memset(data, kPoison, bytes);
  std::memset(data + bytes, kPadding, static_cast<size_t>(pages + page + inner - data) - bytes);
  const std::lock_guard lock(mutex);
  all[pages] = {pages, inner + 2 * page, data, bytes};
  return data;
}

bool padding_is_intact() {
  const auto is_padding = [](unsigned char byte) { return byte == kPadding; };
  const std::lock_guard lock(mutex);
  return std::all_of(all.begin(), all.end(), [&](const auto& entry) {
    const Guarded& one = entry.second;
    return std::all_of(one.pages + page_size(), one.data, is_padding) &&
           std::all_of(one.data + one.bytes, one.pages + one.page_bytes - page_size(), is_padding);
  });
}

void free_guarded(void* data) {
  const Guarded one = guarded_at(data);
  const std::lock_guard lock(mutex);
  if (one.pages == nullptr || all.erase(one.pages) == 0) return;
  ++frees;
  munmap(one.pages, one.page_bytes);
}

void free_all_guarded() {
  const std::lock_guard lock(mutex);
  for (const auto& [pages, one] : all) munmap(one.pages, one.page_bytes);
  all.clear();
  ++frees;
}

bool is_guarded(const void* address) { return guarded_at(address).pages != nullptr; }

std::string guarded_place(const void* address) {
  const Guarded one = guarded_at(address);
  return one.pages == nullptr ? "" : place_in(one, address);
}

void expect_inside(const void* address, size_t bytes) {
  const Guarded one = guarded_at(address);
  const auto* begin = static_cast<const unsigned char*>(address);
  if (one.pages == nullptr || bytes == 0 || (begin >= one.data && begin + bytes <= one.data + one.bytes)) return;
  fault("access to memory " +
        place_in(one, begin < one.data ? begin : std::max<const unsigned char*>(begin, one.data + one.bytes)));
}

}  // namespace tileon::simulation
