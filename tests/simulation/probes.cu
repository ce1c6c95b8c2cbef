// Kernels of a few lines that try the simulated GPU itself: one mistake each, which a flag lets them make.
#include <cstdint>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/launch/launch.h"
#include "probe.h"

namespace tileon {
namespace {

struct Exchange {
  bool synchronizes;
  int* out;
};
// Each thread reads what its neighbour in the next warp wrote.
__global__ void exchange(const __grid_constant__ Exchange params) {
  auto& values = ptx::static_shared<int[64]>();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (params.synchronizes) __syncthreads();
  params.out[threadIdx.x] = values[(threadIdx.x + 32) % 64];
}

// The second warp waits for a barrier that the first one never comes to.
__global__ void wait_for_nobody(const __grid_constant__ int) {
  if (threadIdx.x >= 32) ptx::barrier_sync(3, 64);
}

enum class HandOver : int32_t { kRight, kNobodyStores, kNobodyWaits };
struct CtaChain {
  HandOver way;
  uint64_t* words;
  int *numbers, *out;
};
// Each CTA reads what the one before it wrote.
__global__ void hand_over(const __grid_constant__ CtaChain params) {
  const unsigned cta = blockIdx.x, lane = threadIdx.x;
  ptx::grid_dependency_wait();
  params.numbers[cta * 32 + lane] = static_cast<int>(100 * cta + lane);
  __syncthreads();
  if (lane == 0 && params.way != HandOver::kNobodyStores) ptx::store_release(params.words + cta, 7);
  if (cta == 0) return;
  if (lane == 0 && params.way != HandOver::kNobodyWaits)
    while (ptx::load_acquire(params.words + cta - 1) != 7) continue;
  __syncthreads();
  params.out[cta * 32 + lane] = params.numbers[(cta - 1) * 32 + lane];
}

struct Box {
  CUtensorMap map;
  int at[4], bytes, expected;
  unsigned char* out;
};
// A box as it lies in shared memory.
__global__ void load_box(const __grid_constant__ Box params) {
  unsigned char* memory = ptx::DynamicShared<1024>{}.begin;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  const uint32_t barrier = shared + static_cast<uint32_t>(params.bytes);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(barrier, static_cast<uint32_t>(params.expected));
    ptx::tma_load_4d(shared, params.map, barrier, params.at[0], params.at[1], params.at[2], params.at[3]);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait(barrier, 0)) {
  }
  for (int i = static_cast<int>(threadIdx.x); i < params.bytes; i += 32) params.out[i] = memory[i];
}

struct StoreBox {
  CUtensorMap map;
  bool fences, waits, plain;
};
// 16 rows of 64 bytes, of which byte i is i % 251.
__global__ void store_box(const __grid_constant__ StoreBox params) {
  unsigned char* memory = ptx::DynamicShared<1024>{}.begin;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  for (uint32_t i = threadIdx.x; i < 1024; i += 32) {
    if (params.plain) {
      memory[i] = static_cast<unsigned char>(i % 251);
    } else {
      ptx::store_shared_1(shared + i, i % 251);
    }
  }
  if (params.fences) ptx::fence_proxy_async();
  __syncwarp();
  ptx::tma_store_3d_by_warp(params.map, shared, 0, 0, 0);
  if (params.waits) ptx::tma_wait_read<0>();
}

struct Multiply {
  const unsigned char* image;  // of shared memory
  int bytes;
  uint64_t a, b;  // descriptors of what begins at shared address 0
  bool fences, fences_proxy, waits, overwrites;
  float* out;  // [64][8]
};
template <int kTransposeA, int kTransposeB>
__global__ void multiply(const __grid_constant__ Multiply params) {
  unsigned char* memory = ptx::DynamicShared<1024>{}.begin;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  for (int i = static_cast<int>(threadIdx.x); i < params.bytes; i += 128) memory[i] = params.image[i];
  if (params.fences_proxy) ptx::fence_proxy_async();
  __syncthreads();
  float sums[4] = {};
  if (params.fences) ptx::wgmma_fence();
  ptx::wgmma_m64k16<__half, 8, kTransposeA, kTransposeB>(sums, params.a + (shared >> 4), params.b + (shared >> 4), 0);
  ptx::wgmma_commit();
  if (params.overwrites && threadIdx.x == 0) memory[0] = params.image[0];
  float early[4];
  for (int i = 0; i < 4; ++i) early[i] = const_cast<volatile float&>(sums[i]);
  ptx::wgmma_wait<0>();
  const int row = static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);
  for (int i = 0; i < 4; ++i)
    params.out[(row + i / 2 * 8) * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2] =
        params.waits ? sums[i] : early[i];
}

struct Chain {
  bool waits;
  float *between, *out;
};
__global__ void first_of_chain(const __grid_constant__ Chain params) {
  ptx::grid_dependency_launch();
  __syncthreads();
  params.between[blockIdx.x * 32 + threadIdx.x] = static_cast<float>(threadIdx.x);
}
__global__ void second_of_chain(const __grid_constant__ Chain params) {
  if (params.waits) ptx::grid_dependency_wait();
  params.out[blockIdx.x * 32 + threadIdx.x] = params.between[blockIdx.x * 32 + threadIdx.x];
}

enum class Way { kNone, kCtaBarrier, kNamedBarrier, kMemoryBarrier };
struct PassOn {
  Way way;
  int* out;
};
// The first warp writes what the second one reads.
__global__ void pass_on(const __grid_constant__ PassOn params) {
  auto* values = reinterpret_cast<int*>(ptx::DynamicShared<128>{}.begin);
  const auto barrier = static_cast<uint32_t>(__cvta_generic_to_shared(values + 32));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (params.way == Way::kMemoryBarrier) {
    if (threadIdx.x == 0) ptx::mbarrier_init(barrier, 32);
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    values[lane] = lane;
    if (params.way == Way::kNamedBarrier) ptx::barrier_arrive(3, 64);
    if (params.way == Way::kMemoryBarrier) ptx::mbarrier_arrive(barrier);
  } else {
    if (params.way == Way::kNamedBarrier) ptx::barrier_sync(3, 64);
    while (params.way == Way::kMemoryBarrier && !ptx::mbarrier_try_wait(barrier, 0)) {
    }
  }
  if (params.way == Way::kCtaBarrier) __syncthreads();
  if (threadIdx.x >= 32) params.out[lane] = values[lane];
}

struct Pair {
  bool is_right;
  int* out;
};
// Odd lanes read what even ones wrote.
__global__ void pass_to_lane(const __grid_constant__ Pair params) {
  auto& values = ptx::static_shared<int[32]>();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (params.is_right) __syncwarp();
  params.out[threadIdx.x] = values[threadIdx.x & ~1u];
}
// Two CTAs set a bit in the same memory.
__global__ void count_ctas(const __grid_constant__ Pair params) {
  if (params.is_right) {
    atomicOr(params.out + threadIdx.x, 1);
  } else {
    params.out[threadIdx.x] |= 1;
  }
}

struct Fetch {
  bool bulk, waits;
  const int* from;
  int* out;
};
// Reads what a copy has brought, or may not have yet.
__global__ void fetch(const __grid_constant__ Fetch params) {
  auto* values = reinterpret_cast<int*>(ptx::DynamicShared<128>{}.begin);
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(values));
  if (!params.bulk) {
    ptx::cp_async_element<4>(shared + threadIdx.x * 4, params.from + threadIdx.x, 4);
    ptx::cp_async_commit();
    if (params.waits) ptx::cp_async_wait<0>();
  } else if (threadIdx.x == 0) {
    ptx::mbarrier_init(shared + 128, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(shared + 128, 128);
    ptx::bulk_load(shared, params.from, shared + 128, 128);
  }
  if (params.bulk) __syncthreads();
  while (params.bulk && params.waits && !ptx::mbarrier_try_wait(shared + 128, 0)) {
  }
  params.out[threadIdx.x] = values[threadIdx.x];
}

struct Neighbour {
  bool waits;
  uint32_t* out;
};
// CTA 0 of a cluster reads what CTA 1 has in its shared memory, which may end first.
__global__ void read_neighbour(const __grid_constant__ Neighbour params) {
  unsigned char* memory = ptx::DynamicShared<128>{}.begin;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  ptx::store_shared_4(shared + threadIdx.x * 4, blockIdx.y * 100 + threadIdx.x);
  ptx::cluster_arrive();
  ptx::cluster_wait();
  if (blockIdx.y == 0) params.out[threadIdx.x] = ptx::load_cluster_4(ptx::map_to_cta(shared + threadIdx.x * 4, 1));
  if (params.waits) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

enum class Together : int32_t { kRight, kForItself, kNobodyReleases, kReleasesItself };
struct LoadTogether {
  CUtensorMap map;  // four lines of 32 numbers
  Together way;
  int* out;  // [cta][line][32]
};
// Both CTAs of a cluster read four lines, of which each loads every other one for both: two, then two in the place of
// the first ones.
__global__ void load_together(const __grid_constant__ LoadTogether params) {
  unsigned char* memory = ptx::DynamicShared<128>{}.begin;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  const uint32_t full = shared + 256, empty = shared + 264, lane = threadIdx.x, rank = blockIdx.y;
  if (lane == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::mbarrier_init(empty, 2);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  for (uint32_t round = 0; round < 2; ++round) {
    if (lane == 0) {
      while (round > 0 && !ptx::mbarrier_try_wait(empty, 0)) continue;
      ptx::mbarrier_arrive_expect_tx(full, 256);
      const uint16_t ctas = params.way == Together::kForItself ? static_cast<uint16_t>(1u << rank) : uint16_t{3};
      const auto line = static_cast<int>(2 * round + rank);
      ptx::tma_load_4d_multicast(shared + rank * 128, params.map, full, ctas, 0, line, 0, 0);
    }
    __syncwarp();
    while (!ptx::mbarrier_try_wait(full, round)) continue;
    for (uint32_t line = 0; line < 2; ++line)
      params.out[(rank * 4 + round * 2 + line) * 32 + lane] =
          static_cast<int>(ptx::load_shared_4(shared + line * 128 + lane * 4));
    __syncwarp();
    if (lane < 2 && params.way != Together::kNobodyReleases)
      ptx::mbarrier_arrive_cluster(ptx::map_to_cta(empty, params.way == Together::kReleasesItself ? rank : lane));
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

struct Diverge {
  bool diverges;
};
__global__ void diverge(const __grid_constant__ Diverge params) {
  unsigned char* memory = ptx::DynamicShared<128>{}.begin;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(memory)) + threadIdx.x % 8 * 16;
  if (params.diverges && threadIdx.x % 2 != 0) {
    ptx::stmatrix_x2(shared, 0, 0);
  } else {
    ptx::stmatrix_x2(shared, 0, 0);
  }
}

}  // namespace
}  // namespace tileon

using namespace tileon;
using sm90::encode_tensor_map, sm90::TensorBox;

extern "C" {

const char* probe_exchange(int synchronizes, int* out) {
  return run(exchange, Exchange{synchronizes != 0, out}, config_of(64));
}
const char* probe_deadlock() { return run(wait_for_nobody, 0, config_of(64)); }

// A tensor of bytes: sizes and box of four dimensions, strides of the last three. `expected`: what the barrier is told.
const char* probe_load_box(const void* data, const uint64_t* sizes, const uint64_t* strides, const uint32_t* box,
                           int swizzle, const int* at, int bytes, int expected, unsigned char* out) {
  TensorBox tensor{4, {}, {}, {}};
  for (int i = 0; i < 4; ++i) {
    tensor.sizes[i] = sizes[i];
    tensor.strides[i] = i == 0 ? 0 : strides[i - 1];
    tensor.box[i] = box[i];
  }
  Box params{{}, {at[0], at[1], at[2], at[3]}, bytes, expected, out};
  try {
    encode_tensor_map(data, CU_TENSOR_MAP_DATA_TYPE_UINT8, tensor, static_cast<CUtensorMapSwizzle>(swizzle),
                      params.map);
  } catch (const std::exception& error) {
    probe_text = error.what();
    return probe_text.c_str();
  }
  return run(load_box, params, config_of(32, bytes + 8));
}

// To [16][64] bytes, of which the first `rows` rows and `columns` columns are the tensor.
const char* probe_store_box(void* data, int rows, int columns, int fences, int waits, int plain) {
  const TensorBox tensor{
      3, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), 1}, {0, 64, 1024}, {64, 16, 1}};
  CUtensorMap map;
  encode_tensor_map(data, CU_TENSOR_MAP_DATA_TYPE_UINT8, tensor, CU_TENSOR_MAP_SWIZZLE_NONE, map);
  return run(store_box, StoreBox{map, fences != 0, waits != 0, plain != 0}, config_of(32, 1024));
}

// `fences`: 2 without one for the async proxy, 0 without wgmma's. `waits`: 0 too late, 2 after it has written an
// operand.
const char* probe_multiply(const unsigned char* image, int bytes, uint64_t a, uint64_t b, int transpose_a,
                           int transpose_b, int fences, int waits, float* out) {
  const Multiply params{image, bytes, a, b, fences != 0, fences != 2, waits != 0, waits == 2, out};
  const auto kernel = transpose_a != 0 ? (transpose_b != 0 ? multiply<1, 1> : multiply<1, 0>)
                                       : (transpose_b != 0 ? multiply<0, 1> : multiply<0, 0>);
  return run(+kernel, params, config_of(128, bytes));
}

const char* probe_chain(int ctas, int waits, float* between, float* out) {
  const Chain params{waits != 0, between, out};
  LaunchConfig config = config_of(32);
  config.grid = dim3(static_cast<unsigned>(ctas));
  launch_kernel("launching a probe", config, first_of_chain, params);
  config.may_overlap = true;
  return run(second_of_chain, params, config);
}

const char* probe_pass_on(int way, int* out) {
  return run(pass_on, PassOn{static_cast<Way>(way), out}, config_of(64, 136));
}
const char* probe_pass_to_lane(int is_right, int* out) {
  return run(pass_to_lane, Pair{is_right != 0, out}, config_of(32));
}
const char* probe_count_ctas(int is_right, int* out) {
  LaunchConfig config = config_of(32);
  config.grid = dim3(2);
  return run(count_ctas, Pair{is_right != 0, out}, config);
}
const char* probe_hand_over(int way, int ctas, uint64_t* words, int* numbers, int* out) {
  LaunchConfig config = config_of(32);
  config.grid = dim3(static_cast<unsigned>(ctas));
  return run(hand_over, CtaChain{static_cast<HandOver>(way), words, numbers, out}, config, true);
}
const char* probe_fetch(int bulk, int waits, const int* from, int* out) {
  return run(fetch, Fetch{bulk != 0, waits != 0, from, out}, config_of(32, 136));
}
const char* probe_neighbour(int waits, uint32_t* out) {
  LaunchConfig config = config_of(32, 128);
  config.grid = config.cluster = dim3(1, 2);
  return run(read_neighbour, Neighbour{waits != 0, out}, config);
}

const char* probe_load_together(int way, void* data, int* out) {
  const TensorBox tensor{4, {128, 4, 1, 1}, {0, 128, 512, 512}, {128, 1, 1, 1}};
  LoadTogether params{{}, static_cast<Together>(way), out};
  encode_tensor_map(data, CU_TENSOR_MAP_DATA_TYPE_UINT8, tensor, CU_TENSOR_MAP_SWIZZLE_NONE, params.map);
  LaunchConfig config = config_of(32, 272);
  config.grid = config.cluster = dim3(1, 2);
  return run(load_together, params, config);
}

const char* probe_diverge(int diverges) { return run(diverge, Diverge{diverges != 0}, config_of(32, 256)); }
}
