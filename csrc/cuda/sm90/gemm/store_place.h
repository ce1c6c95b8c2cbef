// Where a warp's part of a tile goes.
#pragma once

namespace tileon::sm90 {

struct StorePlace {
  int row;  // the first of the warp's 16
  int column;
  int batch;
};

}  // namespace tileon::sm90
