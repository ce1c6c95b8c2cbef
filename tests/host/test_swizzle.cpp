// A swizzle is a bijection of each row's chunks, and offsets of row and chunk combine by exclusive-or, as the fragment
// loader relies on. (That reads are free of bank conflicts is a static_assert under the formula.)
#include <cstdio>

#include "cuda/common/swizzle.h"

template <tileon::Swizzle kSwizzle, int kChunks>
int check() {
  int failures = 0;
  for (int row = 0; row < 64; ++row) {
    unsigned long long seen = 0;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int place = tileon::swizzled_chunk<kSwizzle, kChunks>(row, chunk);
      failures += place < 0 || place >= kChunks;
      failures += tileon::swizzled_chunk<kSwizzle, kChunks>(row, place) != chunk;
      seen |= 1ull << place;
      for (int other = 0; other < kChunks; ++other)
        failures += (place ^ other) != tileon::swizzled_chunk<kSwizzle, kChunks>(row, chunk ^ other);
    }
    failures += seen != (kChunks == 64 ? ~0ull : (1ull << kChunks) - 1);
  }
  return failures;
}

int main() {
  using tileon::Swizzle;
  int failures = check<Swizzle::kChunkColumns, 2>() + check<Swizzle::kChunkColumns, 4>() +
                 check<Swizzle::kChunkColumns, 8>() + check<Swizzle::kChunkColumns, 16>() +
                 check<Swizzle::kChunkColumns, 32>();
  failures +=
      check<Swizzle::kWordColumns, 8>() + check<Swizzle::kWordColumns, 16>() + check<Swizzle::kWordColumns, 32>();
  std::printf("swizzle: %d failures\n", failures);
  return failures != 0;
}
