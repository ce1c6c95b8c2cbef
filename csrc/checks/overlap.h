// Whether strided views share memory. Plain C++: no torch header here.
#pragma once

#include <cstdint>

namespace tileon {

// Bytes [first, last) that a view may touch; an empty view touches none.
struct ByteRange {
  const char* first = nullptr;
  const char* last = nullptr;
};

inline ByteRange byte_range(const void* data, const int64_t* sizes, const int64_t* strides, int64_t dims,
                            int64_t element_bytes) {
  int64_t last_element = 0;
  for (int64_t i = 0; i < dims; ++i) {
    if (sizes[i] == 0) return {};
    last_element += (sizes[i] - 1) * strides[i];
  }
  const char* first = static_cast<const char*>(data);
  return {first, first + (last_element + 1) * element_bytes};
}

inline bool overlap(const ByteRange& x, const ByteRange& y) { return x.first < y.last && y.first < x.last; }

// Whether two elements of a view of at most 3 dimensions stand at one address. Exact.
constexpr bool overlaps_itself(const int64_t* sizes, const int64_t* strides, int64_t dims) {
  for (int64_t i = 0; i < dims; ++i)
    if (sizes[i] == 0) return false;
  // The dimensions that have more than one element, by ascending stride.
  int64_t size[3] = {1, 1, 1};
  int64_t stride[3] = {0, 0, 0};
  int count = 0;
  for (int64_t i = 0; i < dims; ++i) {
    if (sizes[i] == 1) continue;
    if (strides[i] == 0) return true;
    int at = count++;
    for (; at > 0 && stride[at - 1] > strides[i]; --at) {
      size[at] = size[at - 1];
      stride[at] = stride[at - 1];
    }
    size[at] = sizes[i];
    stride[at] = strides[i];
  }

  // Nearly always each stride steps over everything that the smaller ones reach.
  int64_t reach = 0;
  bool nested = true;
  for (int i = 0; i < count; ++i) {
    nested = nested && stride[i] > reach;
    reach += (size[i] - 1) * stride[i];
  }
  if (nested) return false;

  // Otherwise two elements meet where a step x, y along two dimensions is undone by a step along the third, the longest
  // one: the search is then at most 2 (elements)^(2/3) long.
  int longest = 0;
  for (int i = 1; i < count; ++i)
    if (size[i] > size[longest]) longest = i;
  const int first = (longest + 1) % 3;
  const int second = (longest + 2) % 3;
  for (int64_t x = 0; x < size[first]; ++x)
    for (int64_t y = 1 - size[second]; y < size[second]; ++y) {
      const int64_t step = x * stride[first] + y * stride[second];
      const int64_t undone = step / stride[longest];
      if (step % stride[longest] == 0 && undone < size[longest] && -undone < size[longest] && (x != 0 || y != 0))
        return true;
    }
  return false;
}

namespace overlap_examples {

constexpr int64_t kSizes[] = {3, 2};
constexpr int64_t kNoElements[] = {3, 0};
constexpr int64_t kContiguous[] = {2, 1};
constexpr int64_t kInterleaved[] = {2, 3};  // 0 3 2 5 4 7: neither stride steps over the other's reach
constexpr int64_t kMeeting[] = {1, 2};      // 0 2 1 3 2 4
constexpr int64_t kExpanded[] = {0, 1};
static_assert(!overlaps_itself(kSizes, kContiguous, 2));
static_assert(!overlaps_itself(kSizes, kInterleaved, 2));
static_assert(overlaps_itself(kSizes, kMeeting, 2));
static_assert(overlaps_itself(kSizes, kExpanded, 2));
static_assert(!overlaps_itself(kNoElements, kExpanded, 2));

}  // namespace overlap_examples
}  // namespace tileon
