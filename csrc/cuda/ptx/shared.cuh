// What the threads of a warp or a CTA have in common (of a cluster: cluster.cuh). A CTA's shared memory: its
// declaration, loads and stores by a 32-bit address, 8x8 matrices of 16-bit elements, and TMA's copies. How threads
// meet: elections, barriers, fences, programmatic dependent launch. A warp's budget of registers; and how a watchdog
// ends a wait.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tileon::ptx {

extern __shared__ __align__(128) unsigned char aligned_to_128[];
extern __shared__ __align__(1024) unsigned char aligned_to_1024[];

// The CTA's dynamic shared memory: `DynamicShared<kAlignment>{}.begin`. An aggregate and no function: nvcc folds
// offsets into an address before it inlines, so that with a call the kernels come out otherwise. Two plain arrays: nvcc
// loses the alignment of a variable template.
template <int kAlignment>
struct DynamicShared {
  static_assert(kAlignment == 128 || kAlignment == 1024);
  unsigned char* begin = kAlignment == 128 ? aligned_to_128 : aligned_to_1024;
};

// The CTA's static shared object of type T, which nobody initializes: one for each type and kernel, so whoever asks for
// the same type in a kernel gets the same object.
template <typename T>
__device__ __forceinline__ T& static_shared() {
  __shared__ T object;
  return object;
}

__device__ __forceinline__ uint32_t load_shared_4(uint32_t shared) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}

__device__ __forceinline__ uint32_t load_shared_2(uint32_t shared) {
  uint16_t half;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(shared) : "memory");
  return half;
}

__device__ __forceinline__ uint32_t load_shared_1(uint32_t shared) {
  uint32_t byte;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(shared) : "memory");
  return byte;
}

// Loads kWords words: two, aligned to eight bytes, or a multiple of four, aligned to sixteen.
template <int kWords>
__device__ __forceinline__ void load_shared_words(uint32_t (&words)[kWords], uint32_t shared) {
  static_assert(kWords == 2 || kWords % 4 == 0);
  if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(shared) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                   : "r"(shared + i * 4)
                   : "memory");
  }
}

__device__ __forceinline__ float4 load_shared_float4(uint32_t shared) {
  float4 values;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "r"(shared)
               : "memory");
  return values;
}

__device__ __forceinline__ double load_shared_double(uint32_t shared) {
  double value;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(shared) : "memory");
  return value;
}

__device__ __forceinline__ void store_shared_1(uint32_t shared, uint32_t byte) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared), "r"(byte) : "memory");
}

__device__ __forceinline__ void store_shared_4(uint32_t shared, uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t shared, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(value) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t shared, double value) {
  asm volatile("st.shared.f64 [%0], %1;" ::"r"(shared), "d"(value) : "memory");
}

__device__ __forceinline__ void store_shared_16(uint32_t shared, const uint4& words) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

// ---- matrices ----

// Lane l gives the address of row l % 8 (16 bytes) of matrix l / 8; register j of lane l then holds elements
// 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix j. Returns when the registers are written.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// ldmatrix_x4 with every matrix transposed on the way.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// sm_90: stores four 8x8 matrices of 16-bit elements. Lane i names the place of row i % 8 of matrix i / 8; of each
// matrix, lane i holds the elements 2 (i % 4) and 2 (i % 4) + 1 of row i / 4.
__device__ __forceinline__ void stmatrix_x4(uint32_t shared, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

// stmatrix_x4 with each matrix transposed on the way: lane i holds the elements 2 (i % 4) and 2 (i % 4) + 1 of its
// column i / 4.
__device__ __forceinline__ void stmatrix_x4_transposed(uint32_t shared, uint32_t m0, uint32_t m1, uint32_t m2,
                                                       uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

__device__ __forceinline__ void stmatrix_x2_transposed(uint32_t shared, uint32_t m0, uint32_t m1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(m0), "r"(m1)
               : "memory");
}

// stmatrix_x4 of two matrices; lanes 0 to 15 name the places.
__device__ __forceinline__ void stmatrix_x2(uint32_t shared, uint32_t m0, uint32_t m1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(m0), "r"(m1) : "memory");
}

// ---- barriers in shared memory (sm_90) ----
//
// A barrier counts arrivals and bytes, and goes through phases. A phase is complete when all its arrivals and all the
// bytes it was told to expect are in; the barrier is then in the next phase. Waiting names a phase by its parity, and a
// fresh barrier is in phase 0: waiting for parity 0 waits for the first phase, waiting for parity 1 returns at once, as
// if a phase before the first were complete.

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes this thread's initialized barriers known to the async proxy and to the other CTAs of the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and raises the bytes that the phase waits for.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// True once the phase of this parity is complete; may also return false after a while.
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t complete;
  asm volatile(
      "{\n.reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n}"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete != 0;
}

// ---- the tensor memory accelerator (sm_90), whose copies complete on mbarriers ----
//
// TMA moves boxes of a tensor between global and shared memory. Coordinates run innermost first. What lies outside the
// tensor is read as zeros, which count as bytes all the same, and is not written.

// Starts loading one box of a tensor of four dimensions; its bytes arrive at `barrier`.
__device__ __forceinline__ void tma_load_4d(uint32_t shared, const CUtensorMap& map, uint32_t barrier, int x, int y,
                                            int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// tma_load_4d to every CTA of the cluster whose bit `ctas` has: to the same place of each one's shared memory, and the
// bytes arrive at the same place's barrier of each.
__device__ __forceinline__ void tma_load_4d_multicast(uint32_t shared, const CUtensorMap& map, uint32_t barrier,
                                                      uint16_t ctas, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared),
      "l"(&map), "r"(barrier), "h"(ctas), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Starts copying `bytes` contiguous bytes; both addresses and `bytes` are multiples of 16. The bytes arrive at
// `barrier`.
__device__ __forceinline__ void bulk_load(uint32_t shared, const void* global, uint32_t barrier, int bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier)
               : "memory");
}

// Starts storing one box of a tensor of three dimensions, as a group of its own. Called by the whole warp, whose
// elected lane (elect_one) stores, and waits for the store too. Election and store are one piece of assembly: behind
// `if (elect_one())`, a short branch, ptxas moves the arithmetic that follows, the next chunk's rounding, in front of
// the store.
__device__ __forceinline__ void tma_store_3d_by_warp(const CUtensorMap& map, uint32_t shared, int x, int y, int z) {
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "@elected cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];\n"
      "@elected cp.async.bulk.commit_group;\n"
      "}" ::"l"(&map),
      "r"(shared), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// Returns when all but the newest kPending of this thread's groups, one a store, have read their shared memory.
template <int kPending>
__device__ __forceinline__ void tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Asks for the line of L2 that an address lies in. The address may be any: one that no memory has is left alone.
__device__ __forceinline__ void prefetch_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

// Fetches the descriptor before it is needed.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// ---- how threads meet ----

// Of a warp (sm_90): true in one lane, the same at every call. The whole warp calls, and its lanes wait for each other
// here (PTX ISA, "elect.sync"): a loop of waits for a phase and elections keeps lanes within one round of each other.
// ptxas knows that one thread runs what an election guards. Behind a comparison of threadIdx it does not know, and puts
// a loop over the active threads around every instruction of TMA.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// The CTA's 16 numbered barriers; __syncthreads is number 0. Arrives and waits for `threads` arrivals, a multiple of
// 32, all in all.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives without waiting.
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// This thread's writes to shared memory, before what the async proxy (TMA, wgmma) does next.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Programmatic dependent launch (sm_90): both functions do nothing on older GPUs, and in a kernel launched without this
// attribute. Returns when every kernel that this one was launched behind is complete and its memory visible.
__device__ __forceinline__ void grid_dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next kernel of the stream to start once every CTA has said so or has exited.
__device__ __forceinline__ void grid_dependency_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A store to nowhere, which ends the kernel with an error. Not a trap: in a kernel with a trap ptxas no longer gives
// the warps' roles registers of their own.
__device__ __forceinline__ void fault() { asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(0) : "memory"); }

// ---- global memory that CTAs of one grid hand to each other ----

// Stores `value` at `word`. A thread of the grid that then loads it by load_acquire sees what this thread did before,
// and what others did before a barrier that this thread has passed.
__device__ __forceinline__ void store_release(uint64_t* word, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ uint64_t load_acquire(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

// ---- registers: a warp's budget, and what the compiler may know of values ----

// Sets how many registers each thread of a warpgroup has (sm_90a); all four warps take part. release_registers gives
// registers back: more than kCount must not be in use.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Takes registers, and waits until kCount a thread are there.
template <int kCount>
__device__ __forceinline__ void acquire_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// No instruction: hides `value` from the compiler, so that what follows from it is computed behind this point.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// No instruction, but an order: this folder's instructions, and every use of `value`, stay on their side of this point.
__device__ __forceinline__ void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }

}  // namespace tileon::ptx
