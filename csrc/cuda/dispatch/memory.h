// The memory that a call on a GPU takes besides its result: of several ways to compute it the first that fits.
#pragma once

#include <optional>
#include <vector>

#include "checks/operands.h"
#include "cuda/dispatch/fit_memory.h"

namespace tileon {

// What one way was granted. Torch's allocator keeps it alive for the kernels, in stream order.
struct Memory {
  std::optional<Tensor> copy_of_a, copy_of_b, scratch;

  std::optional<Tensor>& of(Request request) {
    return request == Request::kCopyOfA ? copy_of_a : request == Request::kCopyOfB ? copy_of_b : scratch;
  }
  void* scratch_pointer() const { return scratch ? scratch->mutable_data_ptr() : nullptr; }
};

// The first of `ways` whose needs() fit, by index; fills `memory` with them. Ends the call where there is none.
template <typename Way>
int fit(const char* op, const std::vector<Way>& ways, const Tensor& like, Memory& memory) {
  std::vector<MemoryNeeds> needs;
  for (const Way& way : ways) needs.push_back(way.needs());
  int64_t refused = 0;
  const auto allocate_bytes = [&](Request request, int64_t bytes) {
    memory.of(request) = try_allocate(like, {1, {bytes}}, ScalarType::Byte);
    if (!memory.of(request)) refused = bytes;
    return memory.of(request).has_value();
  };
  const int chosen = first_that_fits(needs, allocate_bytes, [&] { memory = {}; });
  if (chosen < 0) fail_to_allocate(op, like, {1, {refused}}, ScalarType::Byte);
  return chosen;
}

}  // namespace tileon
