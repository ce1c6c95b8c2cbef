#include "cuda/sm90/launch/launch_sharing.h"

#include <atomic>
#include <random>

namespace tileon::sm90 {

uint64_t next_launch() {
  static const uint64_t seed = std::random_device()() * 0x9e3779b97f4a7c15;
  static std::atomic<uint64_t> count = 0;
  uint64_t mixed = seed + (count.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;  // splitmix64, a permutation
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  return mixed == 0 ? 1 : mixed;
}

}  // namespace tileon::sm90
