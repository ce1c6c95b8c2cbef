// A CTA takes 64 x 64 numbers of an operand at a time: it reads them along whichever dimension they are adjacent in,
// and writes them along k.
#include "cuda/sm90/operand_prep/prepare.h"

#include <cuda_bf16.h>

#include <algorithm>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = kPanel;      // numbers along both dimensions
constexpr int kPitch = kTile + 1;  // of the tile in shared memory: columns meet all banks
constexpr int kCtasPerSm = 4;
// Of larger numbers products of parts might overflow by themselves, with signs other than the whole product's.
constexpr float kLargest = 0x1p56f;

struct Bf16x3Operand {
  Matrix from;
  __nv_bfloat16* to;  // [matrix][mn][bf16x3_k(k)]
  int mn;
  int tiles_mn;
  bool along_k;  // which way a warp reads
};

struct SplitFloat32Params {
  Bf16x3Operand a, b;
  int k;
  int tiles_k;
  int64_t tiles_a;  // of all matrices
  int64_t tiles;    // of both operands
  uint32_t* words;  // of each CTA: not 0 where a number is not the sum of its parts
};

// Where a tile lies.
struct Bf16x3Tile {
  int64_t matrix;
  int mn_begin;
  int panel;  // 64 of k

  __device__ __forceinline__ Bf16x3Tile(const Bf16x3Operand& operand, int tiles_k, int64_t tile) {
    const int64_t line = tile / tiles_k;
    panel = static_cast<int>(tile - line * tiles_k);
    matrix = line / operand.tiles_mn;
    mn_begin = static_cast<int>(line - matrix * operand.tiles_mn) * kTile;
  }
};

using Tile = float[kTile][kPitch];  // [mn][k]

__device__ __forceinline__ void load_tile(const Bf16x3Operand& operand, const Bf16x3Tile& at, int k, Tile& tile) {
  constexpr int per_thread = kTile * kTile / kThreads;
  const float* matrix = static_cast<const float*>(operand.from.data) + at.matrix * operand.from.stride_batch;
  const int inner = static_cast<int>(threadIdx.x) % kTile, first_outer = static_cast<int>(threadIdx.x) / kTile;
  float values[per_thread];
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const int outer = first_outer + i * (kThreads / kTile);
    const int64_t row = at.mn_begin + (operand.along_k ? outer : inner);
    const int64_t column = at.panel * kTile + (operand.along_k ? inner : outer);
    const bool exists = row < operand.mn && column < k;
    values[i] = exists ? matrix[row * operand.from.stride_mn + column * operand.from.stride_k] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const int outer = first_outer + i * (kThreads / kTile);
    (operand.along_k ? tile[outer][inner] : tile[inner][outer]) = values[i];
  }
}

// Eight numbers of a row, as 16 bytes of every plane.
struct EightNumbers {
  __nv_bfloat162 high[4], middle[4], low[4];

  // Returns whether a number is not the sum of its parts, or too large. Each difference is exact, since the part is the
  // nearest bfloat16, and the last one has no more than eight bits.
  __device__ __forceinline__ bool split(const float* values) {
    bool lost = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 whole = {values[2 * i], values[2 * i + 1]};
      high[i] = __float22bfloat162_rn(whole);
      const float2 rest = minus(whole, high[i]);
      middle[i] = __float22bfloat162_rn(rest);
      const float2 last = minus(rest, middle[i]);
      low[i] = __float22bfloat162_rn(last);
      const float2 left = minus(last, low[i]);
      lost |= !(left.x == 0.0f && left.y == 0.0f);  // of infinite numbers it is a NaN
      lost |= fmaxf(fabsf(whole.x), fabsf(whole.y)) > kLargest;
    }
    return lost;
  }

  static __device__ __forceinline__ float2 minus(float2 whole, __nv_bfloat162 part) {
    const float2 wide = __bfloat1622float2(part);
    return {whole.x - wide.x, whole.y - wide.y};
  }
};

__device__ __forceinline__ bool store_planes(const Bf16x3Operand& operand, const Bf16x3Tile& at, int k,
                                             const Tile& tile) {
  constexpr int eights = kTile / 8;  // of a row
  bool lost = false;
#pragma unroll
  for (int first = 0; first < kTile * eights; first += kThreads) {
    const int row = (first + static_cast<int>(threadIdx.x)) / eights,
              column = static_cast<int>(threadIdx.x) % eights * 8;
    if (at.mn_begin + row >= operand.mn) continue;
    EightNumbers parts;
    lost |= parts.split(&tile[row][column]);
    __nv_bfloat16* to = operand.to + (at.matrix * operand.mn + at.mn_begin + row) * bf16x3_k(k) + column;
    *reinterpret_cast<uint4*>(to + panel_begin(at.panel, kLowPlane)) = reinterpret_cast<const uint4&>(parts.low);
    *reinterpret_cast<uint4*>(to + panel_begin(at.panel, kHighPlane)) = reinterpret_cast<const uint4&>(parts.high);
    *reinterpret_cast<uint4*>(to + panel_begin(at.panel, kMiddlePlane)) = reinterpret_cast<const uint4&>(parts.middle);
  }
  return lost;
}

__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    split_float32(const __grid_constant__ SplitFloat32Params params) {
  auto& tile = ptx::static_shared<Tile>();
  ptx::grid_dependency_wait();
  bool lost = false;
  for (int64_t index = blockIdx.x; index < params.tiles; index += gridDim.x) {
    const bool is_b = index >= params.tiles_a;
    const Bf16x3Operand& operand = is_b ? params.b : params.a;
    const Bf16x3Tile at(operand, params.tiles_k, index - (is_b ? params.tiles_a : 0));
    load_tile(operand, at, params.k, tile);
    __syncthreads();
    lost |= store_planes(operand, at, params.k, tile);
    __syncthreads();
  }
  const auto any = static_cast<uint32_t>(__syncthreads_or(lost));
  if (threadIdx.x == 0) params.words[blockIdx.x] = any;
}

Bf16x3Operand operand_of(const Matrix& from, int64_t mn, void* to) {
  const bool along_k = from.stride_k == 1 || (from.stride_mn != 1 && from.stride_k <= from.stride_mn);
  const auto tiles = static_cast<int>((mn + kTile - 1) / kTile);
  return {from, static_cast<__nv_bfloat16*>(to), static_cast<int>(mn), tiles, along_k};
}

}  // namespace

DeviceFlag run_split_float32(const Problem& problem, int sm_count, void* scratch, cudaStream_t stream) {
  auto* memory = static_cast<uint8_t*>(scratch);
  const Bf16x3Scratch place(problem);
  SplitFloat32Params params{};
  params.a = operand_of(problem.a, problem.m, memory);
  params.b = operand_of(problem.b, problem.n, memory + place.b);
  params.k = static_cast<int>(problem.k);
  params.tiles_k = static_cast<int>(k_panels(problem.k));
  params.tiles_a = bf16x3_matrices(problem.a, problem) * params.a.tiles_mn * params.tiles_k;
  params.tiles = params.tiles_a + bf16x3_matrices(problem.b, problem) * params.b.tiles_mn * params.tiles_k;
  params.words = reinterpret_cast<uint32_t*>(memory + place.words);
  const auto ctas = static_cast<int>(std::min<int64_t>(params.tiles, std::min(sm_count * kCtasPerSm, kMaxSplitCtas)));
  launch(&split_float32, dim3(static_cast<unsigned>(ctas)), kThreads, 0, params, stream);
  return {params.words, ctas, true};
}

}  // namespace tileon::sm90
