// Memory for tensors, with pages around it that cannot be touched.
#pragma once

#include <cstddef>
#include <string>

namespace tileon::simulation {

// Ends (or begins, at whole pages) at such a page; filled with NaN. What rounding to pages leaves at its other end, and
// to `alignment` at this one, is filled with bytes of which padding_is_intact says whether one was written.
void* allocate_guarded(size_t bytes, bool at_end, size_t alignment);
bool padding_is_intact();
void free_guarded(void* data);
void free_all_guarded();

bool is_guarded(const void* address);
// Of an address, where it lies in such memory or beside it; empty where it does not.
std::string guarded_place(const void* address);

}  // namespace tileon::simulation
