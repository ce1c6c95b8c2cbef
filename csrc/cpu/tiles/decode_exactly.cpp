#include <algorithm>

#include "core/fold.h"
#include "cpu/dequantize_row.h"
#include "cpu/tiles/block.h"

namespace tileon {

void decode_exactly(const Operand& operand, int64_t row, int64_t begin, int count, float* to) {
  float values[kChunk];
  dequantize_row(operand, row, begin, count, 1, values);
  std::fill_n(to, (count + kGroup - 1) / kGroup * kGroup, 0.0f);
  if (operand.scale.fold_powers != nullptr)
    for (int i = 0; i < count; ++i) values[i] = values[i] + kFoldSteps - kFoldSteps;
  for (int i = 0; i < count; ++i) to[tile_index(i)] = values[i];
}

}  // namespace tileon
