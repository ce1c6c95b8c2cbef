// Where a warp's part of a tile goes.
#pragma once

namespace tileon::sm90 {

struct StorePlace {
  int row;  // the first of the output's rows and columns that it has
  int column;
  int batch;
};

}  // namespace tileon::sm90
