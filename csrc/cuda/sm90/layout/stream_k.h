// Stream-K (Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
// GPU", 2023): the last tiles of an output are one long row of k-blocks, tile behind tile, of which every CTA takes an
// equal range, wherever in a tile that begins and ends. So no SM idles while others have one tile more. Of a tile that
// several CTAs share, the CTA with its last blocks adds the sums of the others to its own and stores the tile.
// Where CTAs load together, a cluster of them stands for a CTA here, and their tiles, side by side, for a tile.
// Pure functions, for the host and for the kernels.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tileon::sm90 {

// How the tiles from `first_tile` on are shared. CTA c has the blocks from begin_of(c) up to begin_of(c + 1); block 0
// is the first of tile first_tile.
struct StreamK {
  int first_tile = 0;
  int ctas = 0;      // 0: no tile is shared
  int k_blocks = 1;  // of a tile
  int blocks = 0;    // of a CTA, and one more of `rest` of them
  int rest = 0;
  int least = 1;  // blocks: a tile's shortest part, for one that is shorter costs more than it saves

  TILEON_HOST_DEVICE constexpr int begin_of(int cta) const {
    const int begin = cta * blocks + (rest > 0 ? cta * rest / ctas : 0);
    const int within = begin % k_blocks;
    return within < least ? begin - within : k_blocks - within < least ? begin + k_blocks - within : begin;
  }
};

// Of a tile that is shared: what a CTA hands over, in memory that nobody cleared. A word of `ready` is `launch` once
// the sums are there, which no other launch has, and 0 when they have been read.
struct StreamKMemory {
  float* sums = nullptr;      // [cta][CTA of a cluster][consumer][sums of a thread / 4][thread][4]
  uint64_t* ready = nullptr;  // [cta][CTA of a cluster][consumer]
  uint64_t launch = 0;
};

}  // namespace tileon::sm90
