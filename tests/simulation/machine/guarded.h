// Memory for tensors, with pages around it that cannot be touched.
#pragma once

#include <cstddef>
#include <string>

namespace tileon::simulation {

// Ends (or begins, at whole pages) at such a page; filled with NaN. What rounding to pages leaves at its other end, and
// to `alignment` at this one, is filled with bytes of which padding_is_intact says whether one was written.
void* allocate_guarded(size_t bytes, bool at_end, size_t alignment);
bool padding_is_intact();
void free_guarded();  // all of it

// Of an address that cannot be touched, what it lies beside.
std::string guarded_neighbour(const void* address);

}  // namespace tileon::simulation
