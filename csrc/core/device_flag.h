// Kernels that run or not as the data decide, without the host: the kernels that prepare the operands leave words, and
// those behind them look whether one of these is set (cuda/common/device_flag.cuh).
#pragma once

#include <cstdint>

namespace tileon {

struct DeviceFlag {
  const uint32_t* words = nullptr;  // null: it always holds
  int count = 0;
  bool when_set = false;  // it holds where a word is set, or where none is
};

}  // namespace tileon
