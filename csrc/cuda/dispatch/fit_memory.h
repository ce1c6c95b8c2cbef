// Which of several ways of computing a call fits in memory. Plain C++: tests/host/test_fit_memory.cpp calls it with an
// allocator that refuses what it is told to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tileon {

// What a way of computing a call asks for besides the result, in this order.
enum class Request { kCopyOfA, kCopyOfB, kScratch };
constexpr std::array kRequests = {Request::kCopyOfA, Request::kCopyOfB, Request::kScratch};

// In bytes; 0 where nothing is asked for.
struct MemoryNeeds {
  int64_t copy_of_a = 0;
  int64_t copy_of_b = 0;
  int64_t scratch = 0;

  int64_t bytes(Request request) const {
    return request == Request::kCopyOfA ? copy_of_a : request == Request::kCopyOfB ? copy_of_b : scratch;
  }
  bool none() const { return copy_of_a == 0 && copy_of_b == 0 && scratch == 0; }
};

// The first way whose requests are all granted, by index; -1 where there is none. `allocate(request, bytes)` says
// whether it was granted, `release()` gives back what a way had when one of its requests was refused.
template <typename Allocate, typename Release>
int first_that_fits(const std::vector<MemoryNeeds>& ways, const Allocate& allocate, const Release& release) {
  for (std::size_t way = 0; way < ways.size(); ++way) {
    bool fits = true;
    for (const Request request : kRequests) {
      const int64_t bytes = ways[way].bytes(request);
      fits = fits && (bytes == 0 || allocate(request, bytes));
    }
    if (fits) return static_cast<int>(way);
    release();
  }
  return -1;
}

}  // namespace tileon
