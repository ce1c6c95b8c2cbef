// Included before everything else in a kernel's sources: CUDA's keywords, built-in variables and intrinsics for a host
// compiler.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "machine.h"

#undef __device__
#undef __global__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#define __device__
#define __global__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline
#undef __noinline__
#define __noinline__

// CUDA C++ Programming Guide, "Synchronization Functions", "Warp Vote", "Warp Reduce" and "Warp Shuffle Functions".
inline void __syncthreads(tileon::simulation::Site where = tileon::simulation::Site::here()) {
  tileon::simulation::sync_threads_or(0, where);
}
inline int __syncthreads_or(int value, tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::sync_threads_or(value, where);
}
inline void __syncwarp(uint32_t mask = 0xffffffff, tileon::simulation::Site where = tileon::simulation::Site::here()) {
  tileon::simulation::sync_warp(mask, where);
}
inline uint32_t __reduce_or_sync(uint32_t mask, uint32_t value,
                                 tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::reduce_or(mask, value, where);
}
inline uint32_t __ballot_sync(uint32_t mask, int value,
                              tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::ballot(mask, value != 0, where);
}
inline int __any_sync(uint32_t mask, int value, tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::ballot(mask, value != 0, where) != 0;
}
inline int __all_sync(uint32_t mask, int value, tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::ballot(mask, value == 0, where) == 0;
}

namespace tileon::simulation {

template <typename T>
T shuffle_any(uint32_t mask, T value, int from, Site where) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(mask, bits, from, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
inline int lane_of_thread() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

}  // namespace tileon::simulation

template <typename T>
inline T __shfl_sync(uint32_t mask, T value, int lane,
                     tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::shuffle_any(mask, value, lane & 31, where);
}
template <typename T>
inline T __shfl_xor_sync(uint32_t mask, T value, int with,
                         tileon::simulation::Site where = tileon::simulation::Site::here()) {
  return tileon::simulation::shuffle_any(mask, value, tileon::simulation::lane_of_thread() ^ with, where);
}
template <typename T>
inline T __shfl_up_sync(uint32_t mask, T value, int by,
                        tileon::simulation::Site where = tileon::simulation::Site::here()) {
  const int lane = tileon::simulation::lane_of_thread();
  return tileon::simulation::shuffle_any(mask, value, lane < by ? lane : lane - by, where);
}
template <typename T>
inline T __shfl_down_sync(uint32_t mask, T value, int by,
                          tileon::simulation::Site where = tileon::simulation::Site::here()) {
  const int lane = tileon::simulation::lane_of_thread();
  return tileon::simulation::shuffle_any(mask, value, lane + by > 31 ? lane : lane + by, where);
}

[[noreturn]] inline void __trap() { tileon::simulation::fault("__trap"); }
inline size_t __cvta_generic_to_shared(const void* pointer) { return tileon::simulation::shared_address(pointer); }

// CUDA Math API.
using std::isfinite;
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
// Products and sums that nvcc never puts together; a compiler of the host might.
inline float __fmul_rn(float a, float b) {
  const volatile float product = a * b;
  return product;
}
inline float __fadd_rn(float a, float b) {
  const volatile float sum = a + b;
  return sum;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }

namespace tileon::simulation {

// Each byte of two words by a function of the bytes.
template <typename Function>
uint32_t by_bytes(uint32_t a, uint32_t b, const Function& function) {
  uint32_t result = 0;
  for (int i = 0; i < 32; i += 8) result |= uint32_t{static_cast<uint8_t>(function(a >> i & 0xff, b >> i & 0xff))} << i;
  return result;
}

}  // namespace tileon::simulation

inline uint32_t __vmaxu4(uint32_t a, uint32_t b) {
  return tileon::simulation::by_bytes(a, b, [](uint32_t x, uint32_t y) { return x > y ? x : y; });
}
inline uint32_t __vcmpltu4(uint32_t a, uint32_t b) {
  return tileon::simulation::by_bytes(a, b, [](uint32_t x, uint32_t y) { return x < y ? 0xff : 0; });
}
inline uint32_t __vcmpeq4(uint32_t a, uint32_t b) {
  return tileon::simulation::by_bytes(a, b, [](uint32_t x, uint32_t y) { return x == y ? 0xff : 0; });
}

template <typename A, typename B, typename = std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B>>>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <typename A, typename B, typename = std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B>>>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}

// The host's are calls, because compilers have no single instruction that treats NaN like that.
inline float larger_float(float x, float y) { return x > y || y != y ? x : y; }
inline float smaller_float(float x, float y) { return x < y || y != y ? x : y; }
#define fmaxf larger_float
#define fminf smaller_float

// Counted: where kernels say fmaf, they add up again what tensor cores have lost.
inline float counted_fmaf(float x, float y, float z) {
  ++tileon::simulation::fmaf_count;
  return std::fma(x, y, z);
}
#define fmaf counted_fmaf

// Loads with a hint, which nothing depends on. cuda_fp16.h has names like these for the device alone.
template <typename T>
inline T load_with_hint(const T* pointer) {
  return *pointer;
}
#define __ldcs load_with_hint
#define __ldg load_with_hint

// One thread runs at a time, and gives way to others nowhere in here.
#define TILEON_UNSEEN __attribute__((no_sanitize("thread")))  // as plain loads and stores
template <typename T>
TILEON_UNSEEN inline T atomicOr(T* word, T value) {
  tileon::simulation::atomic_access(word, sizeof(T));
  const T old = *word;
  *word |= value;
  return old;
}
template <typename T>
TILEON_UNSEEN inline T atomicMax(T* word, T value) {
  tileon::simulation::atomic_access(word, sizeof(T));
  const T old = *word;
  if (value > old) *word = value;
  return old;
}

// cuda_fp16.h has it for the device alone. One rounding: the product is exact in float, and so is the sum in double.
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  const auto one = [](__half x, __half y, __half z) {
    return __double2half(static_cast<double>(__half2float(x)) * __half2float(y) + __half2float(z));
  };
  return {one(a.x, b.x, c.x), one(a.y, b.y, c.y)};
}
