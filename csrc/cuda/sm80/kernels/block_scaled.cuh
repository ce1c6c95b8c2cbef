// Block-scaled GEMM for any GPU from Ampere on: codes become bfloat16 on their way to shared memory, exactly, and the
// tensor cores multiply those as in the dense kernel (mma.cuh).
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/code_chunks.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// The main loop: the products of all k-blocks, and beside them the decoding of those to come.
//
// Two warps share a scheduler. One decodes before it multiplies and the other one after, so that the tensor cores have
// work from one warp while the other decodes. Of three stages one is multiplied, one is complete, so that its first
// fragments can be loaded early, and one is decoded into.

// The three stages of decoded k-blocks; a k-block moves from one role to the next at each barrier.
template <typename Kernel>
class DecodedStages {
  static constexpr int kPieces = Kernel::ReaderA::kCount + Kernel::ReaderB::kCount;
  static constexpr int kStageBytes = Kernel::TileA::bytes + Kernel::TileB::bytes;

 public:
  static constexpr int bytes = 3 * kStageBytes;

  // Lands k-blocks `first` and the next, and loads the one after.
  __device__ __forceinline__ DecodedStages(uint32_t shared, typename Kernel::ReaderA& a, typename Kernel::ReaderB& b,
                                           int first)
      : current_(shared), next_(shared + kStageBytes), landing_(shared + 2 * kStageBytes), reader_a_(a), reader_b_(b) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) load(piece, first);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      land(piece, current_);
      load(piece, first + 1);
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      land(piece, next_);
      load(piece, first + 2);
    }
    __syncthreads();
  }

  // While k-block `block` is multiplied: decodes the one after the next, and loads the one after that.
  __device__ __forceinline__ void move(int block) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      land(piece, landing_);
      load(piece, block + 3);
    }
  }

  // Ends a k-block: returns when all threads have read it, and all have landed theirs of the k-block after the next.
  __device__ __forceinline__ void turn() {
    __syncthreads();
    const uint32_t free = current_;
    current_ = next_;
    next_ = landing_;
    landing_ = free;
  }

  // The stage of the k-block that is multiplied, and of the next one.
  __device__ __forceinline__ uint32_t current() const { return current_; }
  __device__ __forceinline__ uint32_t next() const { return next_; }

 private:
  __device__ __forceinline__ void load(int piece, int block) {
    piece < Kernel::ReaderA::kCount ? reader_a_.load(piece, block)
                                    : reader_b_.load(piece - Kernel::ReaderA::kCount, block);
  }

  __device__ __forceinline__ void land(int piece, uint32_t stage) {
    piece < Kernel::ReaderA::kCount ? reader_a_.land(piece, stage)
                                    : reader_b_.land(piece - Kernel::ReaderA::kCount, stage + Kernel::TileA::bytes);
  }

  uint32_t current_, next_, landing_;
  typename Kernel::ReaderA& reader_a_;
  typename Kernel::ReaderB& reader_b_;
};

// Fragments are loaded sixteen rows ahead: b's for half a k-block, a's for sixteen rows of it. Loaded earlier, they
// would take the registers that decoding needs.
template <typename Kernel>
__device__ __forceinline__ void multiply_decoded(DecodedStages<Kernel>& stages,
                                                 const typename Kernel::LoaderA& loader_a,
                                                 const typename Kernel::LoaderB& loader_b, const CtaTile& tile,
                                                 typename Kernel::Sums& sums) {
  static_assert(Kernel::k_steps == 2);
  const bool decodes_first = threadIdx.x < Kernel::threads / 2;
  constexpr int kSlots = 2 * Kernel::fragments_m;
  uint32_t a[2][4];
  uint32_t b[2][Kernel::LoaderB::kCount][4];
  loader_a.load_one(stages.current(), 0, 0, a[0]);
  loader_b.load(stages.current() + Kernel::TileA::bytes, 0, b[0]);
#pragma unroll 1
  for (int block = tile.first_block; block < tile.end_block(); ++block) {
    if (decodes_first) stages.move(block);
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int half = slot / Kernel::fragments_m, m = slot % Kernel::fragments_m;
      const bool is_last = slot + 1 == kSlots;
      loader_a.load_one(is_last ? stages.next() : stages.current(), (slot + 1) % kSlots / Kernel::fragments_m,
                        (slot + 1) % Kernel::fragments_m, a[(slot + 1) % 2]);
      if (m == Kernel::fragments_m - 1) {
        const uint32_t stage = half == 0 ? stages.current() : stages.next();
        loader_b.load(stage + Kernel::TileA::bytes, 1 - half, b[1 - half]);
      }
      multiply_row<typename Kernel::Element, typename Kernel::Element>(m, a[slot % 2], b[half], sums[m]);
    }
    if (!decodes_first) stages.move(block);
    stages.turn();
  }
}

template <int kFragmentsM, int kFragmentsN, typename Use>
__device__ __forceinline__ void for_each(float (&sums)[kFragmentsM][kFragmentsN][4], const Use& use) {
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (auto& fragment : row)
#pragma unroll
      for (float& sum : fragment) use(sum);
}

// The tile once more, as TF32, where bfloat16 loses something of e4m3: numbers under scales below 2^-124, and NaNs, for
// which the fast way has no time. TF32 keeps 2^-136 and so every product of a code and its scale: the tensor core
// multiplies them exactly. Such numbers are as good as zero, or an error, so this code is short instead of fast: a
// k-block is decoded, then multiplied.

template <typename Chunk, int kTileMn, int kThreads>
struct WideOperand {
  using Tile = OperandTile<float, kTileMn, kScaledBlockK, Major::kK>;
  using Loader = ChunkLoader<Chunk, kTileMn, kThreads>;

  static __device__ __forceinline__ void store(uint32_t shared, const Chunk& chunk, int row) {
    const float scale = Chunk::kScale == ScaleType::kE8M0 ? e8m0_value(chunk.scale) : e4m3_value(chunk.scale);
#pragma unroll
    for (int i = 0; i < Chunk::elements; i += 4) {
      const uint32_t codes = chunk.codes[i * Chunk::bits / 32] >> (i * Chunk::bits % 32);
      uint32_t values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t code = codes >> (j * Chunk::bits) & ((1 << Chunk::bits) - 1);
        values[j] = bits_of((Chunk::bits == 8 ? e4m3_value(code) : e2m1_value(code)) * scale);
      }
      ptx::store_shared_16(shared + Tile::offset(row, (Loader::half() * Chunk::elements + i) / 4),
                           {values[0], values[1], values[2], values[3]});
    }
  }

  static __device__ __forceinline__ void decode_block(const Loader& loader, uint32_t shared, int block) {
#pragma unroll
    for (int i = 0; i < Loader::kCount; ++i)
      if (Loader::in_tile(i)) store(shared, loader.load(i, block), Loader::row(i));
  }
};

// Sums the CTA's k anew. All threads of the CTA take part; `shared` is theirs.
template <typename Kernel>
__device__ __forceinline__ void multiply_wide(const typename Kernel::WideA::Loader& load_a,
                                              const typename Kernel::WideB::Loader& load_b, const CtaTile& tile,
                                              uint32_t shared, typename Kernel::Sums& sums) {
  using WideA = typename Kernel::WideA;
  using WideB = typename Kernel::WideB;
  const FragmentLoader<float, typename WideA::Tile, Side::kA, Kernel::config.warp_m()> fragments_a(tile.warp_m,
                                                                                                   threadIdx.x % 32);
  const FragmentLoader<float, typename WideB::Tile, Side::kB, Kernel::config.warp_n()> fragments_b(tile.warp_n,
                                                                                                   threadIdx.x % 32);
  const uint32_t shared_b = shared + WideA::Tile::bytes;
  for_each(sums, [](float& sum) { sum = 0; });
#pragma unroll 1
  for (int block = tile.first_block; block < tile.end_block(); ++block) {
    WideA::decode_block(load_a, shared, block);
    WideB::decode_block(load_b, shared_b, block);
    __syncthreads();
#pragma unroll 1
    for (int k_step = 0; k_step < kScaledBlockK * 4 / kBytesPerKStep; ++k_step) {
      uint32_t a[Kernel::fragments_m][4];
      uint32_t b[Kernel::fragments_n / 2][4];
      fragments_a.load(shared, k_step, a);
      fragments_b.load(shared_b, k_step, b);
#pragma unroll
      for (int m = 0; m < Kernel::fragments_m; ++m) multiply_row<float, float>(0, a[m], b, sums[m]);
    }
    __syncthreads();  // before the next k-block takes this one's place
  }
}

// The types and sizes of one kernel, from a config and the operands' formats.
template <TileConfig kConfig, DType kA, DType kB, ScaleType kScale>
struct BlockScaledKernel : FragmentKernel<kConfig, __nv_bfloat16, Major::kK, Major::kK> {
  using Element = __nv_bfloat16;  // as multiplied
  using Base = FragmentKernel<kConfig, Element, Major::kK, Major::kK>;
  using typename Base::TileA, typename Base::TileB;
  static constexpr int threads = Base::threads;
  static_assert(kConfig.block_k == kScaledBlockK && kConfig.stages == 3);
  using ChunkA = ChunkOf<kA, kScale, kConfig.tile_m, threads>;
  using ChunkB = ChunkOf<kB, kScale, kConfig.tile_n, threads>;
  using ChunksA = ChunkLoader<ChunkA, kConfig.tile_m, threads>;
  using ChunksB = ChunkLoader<ChunkB, kConfig.tile_n, threads>;
  using ReaderA = DequantizingReader<ChunkA, TileA, kConfig.tile_m, threads>;
  using ReaderB = DequantizingReader<ChunkB, TileB, kConfig.tile_n, threads>;

  // bfloat16 holds every product of e2m1 and a scale
  static constexpr bool may_be_wide = kA == DType::kFloat8E4M3 || kB == DType::kFloat8E4M3;
  using WideA = WideOperand<ChunkA, kConfig.tile_m, threads>;
  using WideB = WideOperand<ChunkB, kConfig.tile_n, threads>;
  static_assert(Base::shared_bytes >= DecodedStages<BlockScaledKernel>::bytes &&
                Base::shared_bytes >= WideA::Tile::bytes + WideB::Tile::bytes);
};

// Sums the CTA's k, through bfloat16 and, where that loses something of this tile's operands, once more.
template <typename Kernel>
__device__ __forceinline__ void multiply_tile(const ScaledKernelProblem& problem, const CtaTile& tile, uint32_t shared,
                                              typename Kernel::Sums& sums) {
  const typename Kernel::ChunksA chunks_a(problem.a, problem.m, problem.k, tile.m_begin);
  const typename Kernel::ChunksB chunks_b(problem.b, problem.n, problem.k, tile.n_begin);
  typename Kernel::ReaderA reader_a(chunks_a);
  typename Kernel::ReaderB reader_b(chunks_b);
  const typename Kernel::LoaderA loader_a(tile.warp_m, threadIdx.x % 32);
  const typename Kernel::LoaderB loader_b(tile.warp_n, threadIdx.x % 32);
  DecodedStages<Kernel> stages(shared, reader_a, reader_b, tile.first_block);
  multiply_decoded<Kernel>(stages, loader_a, loader_b, tile, sums);
  if constexpr (Kernel::may_be_wide) {
    if (__syncthreads_or(reader_a.saw_beyond_bfloat16() || reader_b.saw_beyond_bfloat16()))
      multiply_wide<Kernel>(chunks_a, chunks_b, tile, shared, sums);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_block_scaled(const __grid_constant__ BlockScaledParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  if constexpr (!fits_this_architecture<Kernel::shared_bytes>()) {
    __trap();
  } else {
    const ScaledKernelProblem& problem = params.problem;
    if (!holds(problem.device_flag)) return;
    constexpr TileConfig config = Kernel::config;
    const CtaTile tile(params, config);
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    typename Kernel::Sums sums = {};
    if (problem.k > 0) multiply_tile<Kernel>(problem, tile, shared, sums);
    if (problem.global_scale != nullptr)
      for_each(sums, [factor = *problem.global_scale](float& sum) { sum *= factor; });
    store_fragments<typename Kernel::Slab>(params, tile.out, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n,
                                           shared_memory, sums);
  }
}

}  // namespace tileon::sm80
