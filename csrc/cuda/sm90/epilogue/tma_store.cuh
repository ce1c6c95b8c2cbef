// From accumulators to 16-bit rows of the output through TMA, while the next tile is being multiplied; and with any
// activation, and the activation's argument besides where that is wanted, through TMA or, where TMA cannot write the
// rows, by the lanes themselves.
//
// Every warp works alone: its 16 rows go in chunks of columns through buffers of its own, so that no warp waits for
// another. A chunk is scaled and finished when it is its turn, while the ones before are on their way: storing a large
// tile takes longer than the arithmetic, which hides behind it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/chunk_copy.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/epilogue/staged_store.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

template <typename Kernel, int kColumns>
__device__ __forceinline__ void write_chunk(const uint32_t (&words)[kColumns / 4], uint32_t buffer) {
  const RowsInBuffer<Kernel, kColumns> rows(buffer, threadIdx.x % 32);
#pragma unroll
  for (int column = 0; column + 16 <= kColumns; column += 16) rows.write_16(column, &words[column / 4]);
  if constexpr (kColumns % 16 == 8) rows.write_8(kColumns - 8, &words[(kColumns - 8) / 4]);
}

// The bias of the first chunk, read while the last stage is multiplied, where there are registers for it.
template <typename Kernel>
using FirstBias = ChunkBias<Kernel, (Kernel::columns < kStoreColumns ? Kernel::columns : kStoreColumns)>;

// Finishes, rounds and stores one chunk through `buffers`, which are the warp's own. `bias` is for the output's column
// that the warp's part begins with.
template <typename Kernel, int kChunk, typename Results, typename EpilogueOfSum>
__device__ __forceinline__ void store_chunk(const KernelParams& params, uint32_t buffers, const Results& results,
                                            const float* bias, const FirstBias<Kernel>& first_bias,
                                            const EpilogueOfSum& epilogue, const StorePlace& place) {
  constexpr int chunks_per_row = store_chunks(Kernel::columns);
  constexpr int chunks = Kernel::row_blocks * chunks_per_row;
  constexpr int block = kChunk / chunks_per_row, begin = kChunk % chunks_per_row * kStoreColumns;
  constexpr bool is_tail = begin + kStoreColumns > Kernel::columns;
  constexpr int columns = is_tail ? store_tail(Kernel::columns) : kStoreColumns;
  constexpr int store_buffers = sm90::store_buffers(Kernel::config);
  const uint32_t buffer = buffers + kChunk % store_buffers * kStoreBufferBytes;
  constexpr int down = Kernel::swapped ? begin : block * 64;  // in the output, from the warp's place on
  constexpr int along = Kernel::swapped ? block * 64 : begin;

  uint32_t words[columns / 4];
  ChunkBias<Kernel, columns> chunk_bias;
  if constexpr (EpilogueOfSum::biased) {
    if constexpr (kChunk == 0 && Kernel::reads_bias_early) {
      chunk_bias = first_bias;
    } else {
      chunk_bias.read(bias + along);
    }
  }
  const auto fragments = results.template columns<block, begin, columns>();
  round_chunk<Kernel, columns>(&fragments[0], chunk_bias, epilogue, words);
  // The last store through this buffer must have read it. The next chunk's wait, a branch like this one, also keeps
  // ptxas from finishing that chunk before this one is stored.
  if (ptx::elect_one()) {
    if (kChunk == 0 && chunks % store_buffers != 0) {
      ptx::tma_wait_read<0>();  // the last store was of the last tile's last chunk
    } else {
      ptx::tma_wait_read<store_buffers - 1>();
    }
  }
  __syncwarp();
  write_chunk<Kernel, columns>(words, buffer);
  ptx::fence_proxy_async();
  __syncwarp();
  const CUtensorMap& map = is_tail ? params.map_out_tail : params.map_out;
  ptx::tma_store_3d_by_warp(map, buffer, place.column + along, place.row + down, place.batch);
}

// Finishes and stores a warp's part of a tile.
template <typename Kernel, typename Results>
__device__ __forceinline__ void store_by_tma(const KernelParams& params, unsigned char* buffers, const Results& results,
                                             const float* bias, const FirstBias<Kernel>& first_bias,
                                             const StorePlace& place) {
  static_assert(Kernel::columns % 8 == 0);
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(buffers));
  with_formula(params, [&](const auto& formula) {
    [&]<int... kChunk>(std::integer_sequence<int, kChunk...>) {
      (store_chunk<Kernel, kChunk>(params, shared, results, bias, first_bias, formula, place), ...);
    }(std::make_integer_sequence<int, Kernel::row_blocks * store_chunks(Kernel::columns)>());
  });
}

// Shared memory must outlive the stores that read it.
__device__ __forceinline__ void wait_for_tma_stores() {
  if (ptx::elect_one()) ptx::tma_wait_read<0>();
}

// ---- where TMA cannot write the rows: the chunks are the same, each copied by the warp's lanes before the next ----

// Columns of a chunk that are finished at a time.
constexpr int kCopiedPart = 32;

// Finishes and rounds part `kPart` of a warp's sums, to its columns of the chunk in `buffer`.
template <typename Kernel, int kPart, typename Results>
__device__ __forceinline__ void fill_part(const KernelParams& params, uint32_t buffer, const Results& results,
                                          const float* bias) {
  constexpr int parts_per_row = (Kernel::columns + kCopiedPart - 1) / kCopiedPart;
  constexpr int block = kPart / parts_per_row, begin = kPart % parts_per_row * kCopiedPart;
  constexpr int columns = std::min(kCopiedPart, Kernel::columns - begin);
  constexpr int chunk_begin = begin / kStoreColumns * kStoreColumns;
  constexpr int chunk_columns = std::min(kStoreColumns, Kernel::columns - chunk_begin);
  uint32_t words[columns / 4];
  with_formula(params, [&](const auto& formula) {
    ChunkBias<Kernel, columns> part_bias;
    if constexpr (std::remove_cvref_t<decltype(formula)>::biased)
      part_bias.read(bias + (Kernel::swapped ? block * 64 : begin));
    const auto fragments = results.template columns<block, begin, columns>();
    round_chunk<Kernel, columns>(&fragments[0], part_bias, formula, words);
  });
  const RowsInBuffer<Kernel, chunk_columns> rows(buffer, ptx::opaque(threadIdx.x % 32));
#pragma unroll
  for (int column = 0; column + 16 <= columns; column += 16)
    rows.write_16(begin - chunk_begin + column, &words[column / 4]);
  if constexpr (columns % 16 == 8) rows.write_8(begin - chunk_begin + columns - 8, &words[(columns - 8) / 4]);
}

// Finishes and stores a warp's part of a tile. The copying code stands once: with a copy of it for each chunk and
// formula there would be more code than a cache of instructions holds.
template <typename Kernel, typename Results>
__device__ __forceinline__ void store_by_copies(const KernelParams& params, unsigned char* buffers,
                                                const Results& results, const float* bias, const StorePlace& place) {
  constexpr int parts_per_row = (Kernel::columns + kCopiedPart - 1) / kCopiedPart;
  constexpr int parts = Kernel::row_blocks * parts_per_row, tail = store_tail(Kernel::columns);
  const KernelProblem& problem = params.problem;
  const auto buffer = static_cast<uint32_t>(__cvta_generic_to_shared(buffers));
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    with_constant<0, parts>(part,
                            [&](auto constant) { fill_part<Kernel, constant.value>(params, buffer, results, bias); });
    const int of_row = part % parts_per_row;
    if (of_row % (kStoreColumns / kCopiedPart) == 0 && of_row + 1 < parts_per_row) continue;  // half a chunk
    __syncwarp();
    const int begin = of_row * kCopiedPart / kStoreColumns * kStoreColumns, block_begin = part / parts_per_row * 64;
    const int down = Kernel::swapped ? begin : block_begin, along = Kernel::swapped ? block_begin : begin;
    const StorePlace to{place.row + down, place.column + along, place.batch};
    const bool is_tail = begin + kStoreColumns > Kernel::columns;
    if constexpr (Kernel::columns >= kStoreColumns)
      if (!is_tail)
        copy_most_chunks<Kernel, kStoreColumns>(problem.out, problem.out.data, problem.m, problem.n, buffer, to);
    if constexpr (tail > 0)
      if (is_tail) copy_most_chunks<Kernel, tail>(problem.out, problem.out.data, problem.m, problem.n, buffer, to);
    __syncwarp();
  }
}

// ---- any activation. The chunks are the same, but a chunk's parts take turns in one piece of code: exp and erf once
// for each sum and formula would be more code than a cache of instructions holds, and few registers are left beside the
// sums ----

// A warp's part of a tile on its way through the warp's buffers.
template <typename Kernel>
class ActivatedStore {
  static constexpr int chunks_per_row = store_chunks(Kernel::columns);
  static constexpr int chunks = Kernel::row_blocks * chunks_per_row;
  static constexpr int tail = store_tail(Kernel::columns);
  static constexpr int sums = sums_of_thread(Kernel::config);
  // A part's columns: a thread has half as many sums of a part. More columns hide more of the formulas' latency, as far
  // as there are registers for them beside all sums.
  static constexpr int part_columns = is_crowded(Kernel::stored_sums, Kernel::config) ? 8
                                      : sums > kAmpleSums || (tail > 0 && tail < 32)  ? 16
                                                                                      : 32;
  static constexpr int parts_per_row = (Kernel::columns + part_columns - 1) / part_columns;
  static_assert(kStoreColumns % part_columns == 0);
  using Values = float[part_columns / 2];

  // The store buffers that hold a whole chunk.
  static constexpr int buffers =
      std::max(1, std::min(store_buffers(Kernel::config), Kernel::columns / kStoreColumns * Kernel::row_blocks));

 public:
  // `bias` is for the output's column that the warp's part begins with.
  __device__ __forceinline__ ActivatedStore(const KernelParams& params, unsigned char* shared, const float* bias,
                                            const StorePlace& place)
      : params_(params), shared_(static_cast<uint32_t>(__cvta_generic_to_shared(shared))), bias_(bias), place_(place) {
    if (ptx::elect_one()) ptx::tma_wait_read<0>();  // the last tile's
  }

  template <typename Results>
  __device__ __forceinline__ void store(const Results& results) {
    const bool keeps_argument = Kernel::keeps_pre_activation && params_.problem.pre_activation != nullptr;
    Wanted wanted{keeps_argument, has_two_buffers || !keeps_argument};
#pragma unroll 1
    for (int chunk = 0; chunk < chunks;) {
      store_chunk(results, chunk, wanted);
      if (wanted.output) ++chunk;
      if (!has_two_buffers && keeps_argument) wanted = {!wanted.argument, !wanted.output};
    }
  }

 private:
  // What a chunk's turn writes: both, or where there is one buffer, the argument's turn comes first.
  struct Wanted {
    bool argument, output;
  };
  static constexpr bool has_two_buffers = buffers >= 2;

  __device__ __forceinline__ uint32_t next_buffer() {
    const uint32_t buffer = shared_ + next_buffer_ * kStoreBufferBytes;
    next_buffer_ = next_buffer_ + 1 == buffers ? 0 : next_buffer_ + 1;
    return buffer;
  }

  template <typename Results>
  __device__ __forceinline__ void store_chunk(const Results& results, int chunk, const Wanted& wanted) {
    const int block = chunk / chunks_per_row, begin = chunk % chunks_per_row * kStoreColumns;
    const bool is_tail = begin + kStoreColumns > Kernel::columns;
    const int columns = is_tail ? tail : kStoreColumns;
    const bool both = has_two_buffers && Kernel::keeps_pre_activation && wanted.argument && wanted.output;
    const uint32_t argument_buffer = next_buffer();
    const uint32_t buffer = both ? next_buffer() : argument_buffer;
    // The buffers' last chunks have left them, through TMA, in the order of the buffers, or by the lanes.
    if (ptx::elect_one()) {
      if (both) {
        ptx::tma_wait_read<std::max(buffers - 2, 0)>();
      } else {
        ptx::tma_wait_read<buffers - 1>();
      }
    }
    __syncwarp();
#pragma unroll 1
    for (int column = 0; column < columns; column += part_columns) {
      Values values;
      with_constant<0, Kernel::row_blocks * parts_per_row>(block * parts_per_row + (begin + column) / part_columns,
                                                           [&](auto part) { read<part.value>(results, values); });
      if (Kernel::keeps_pre_activation && wanted.argument) write_rounded(values, argument_buffer, column, is_tail);
      if (!wanted.output) continue;
      activate_all(values, params_.problem.epilogue);
      write_rounded(values, buffer, column, is_tail);
    }
    const int down = Kernel::swapped ? begin : block * 64, along = Kernel::swapped ? block * 64 : begin;
    const StorePlace place{place_.row + down, place_.column + along, place_.batch};
    if (params_.store_by_tma) ptx::fence_proxy_async();
    __syncwarp();
    if (Kernel::keeps_pre_activation && wanted.argument) send(argument_buffer, is_tail, true, place);
    if (wanted.output) send(buffer, is_tail, false, place);
  }

  __device__ __forceinline__ void write_rounded(const Values& values, uint32_t buffer, int column, bool is_tail) const {
    uint32_t words[part_columns / 4];
#pragma unroll
    for (int i = 0; i < part_columns / 4; ++i)
      words[i] = round_pair<typename Kernel::Out>(values[2 * i], values[2 * i + 1]);
    if (tail > 0 && is_tail) {
      write_part<tail>(words, buffer, column);
    } else {
      write_part<kStoreColumns>(words, buffer, column);
    }
  }

  // A chunk on its way from its buffer.
  __device__ __forceinline__ void send(uint32_t buffer, bool is_tail, bool is_argument, const StorePlace& place) const {
    if (!params_.store_by_tma) return copy(buffer, is_tail, is_argument, place);
    const CUtensorMap& map = is_argument ? (is_tail ? params_.map_pre_activation_tail : params_.map_pre_activation)
                                         : (is_tail ? params_.map_out_tail : params_.map_out);
    ptx::tma_store_3d_by_warp(map, buffer, place.column, place.row, place.batch);
  }

  __device__ __forceinline__ void copy(uint32_t buffer, bool is_tail, bool is_argument, const StorePlace& place) const {
    const KernelProblem& problem = params_.problem;
    void* data = is_argument ? problem.pre_activation : problem.out.data;
    if constexpr (Kernel::columns >= kStoreColumns)
      if (!is_tail) copy_chunk<Kernel, kStoreColumns>(problem.out, data, problem.m, problem.n, buffer, place);
    if constexpr (tail > 0)
      if (is_tail) copy_chunk<Kernel, tail>(problem.out, data, problem.m, problem.n, buffer, place);
  }

  // The part's sums and their bias; what is no column of the tile is 0.
  template <int kPart, typename Results>
  __device__ __forceinline__ void read(const Results& results, Values& values) const {
    constexpr int block = kPart / parts_per_row, begin = kPart % parts_per_row * part_columns;
    constexpr int columns = std::min(part_columns, Kernel::columns - begin);
    ChunkBias<Kernel, columns> bias;
    bias.read(bias_ + (Kernel::swapped ? block * 64 : begin));
    const auto fragments = results.template columns<block, begin, columns>();
#pragma unroll
    for (int i = 0; i < part_columns / 2; ++i) values[i] = i < columns / 2 ? fragments[i] + bias.of(i) : 0.0f;
  }

  // To a chunk of kColumns, from `column` on.
  template <int kColumns>
  static __device__ __forceinline__ void write_part(const uint32_t (&words)[part_columns / 4], uint32_t buffer,
                                                    int column) {
    // What follows from the lane is worked out here: before the main loop, where the compiler would do it, there are no
    // registers to keep it in.
    const RowsInBuffer<Kernel, std::max(kColumns, 8)> rows(buffer, ptx::opaque(threadIdx.x % 32));
    if constexpr (part_columns == 8) {
      rows.write_8(column, words);
    } else {
#pragma unroll
      for (int x = 0; x < part_columns; x += 16) {
        if (column + x + 16 <= kColumns) {
          rows.write_16(column + x, &words[x / 4]);
        } else if (column + x + 8 <= kColumns) {
          rows.write_8(column + x, &words[x / 4]);
        }
      }
    }
  }

  const KernelParams& params_;
  uint32_t shared_;
  const float* bias_;
  StorePlace place_;
  uint32_t next_buffer_ = 0;
};

// The Store of a persistent kernel that has no other: in chunks of 16 bits, else staged.
template <typename Kernel>
struct TmaStore {
  // Stores a warp's part of a tile through `shared`, the warp's own. `bias`, in shared memory, is for the output's
  // column that the part begins with.
  template <typename Results>
  static __device__ __forceinline__ void store(const KernelParams& params, unsigned char* shared,
                                               const Results& results, const float* bias,
                                               const FirstBias<Kernel>& first_bias, const StorePlace& place) {
    if (!results.is_ordinary()) {
      wait_for_tma_stores();  // the last tile's results may have been
      __syncwarp();
    } else if (params.epilogue_op == EpilogueOp::kActivation) {
      if constexpr (has_activated_store(Kernel::stored_sums, Kernel::config))
        return ActivatedStore<Kernel>(params, shared, bias, place).store(results);
    } else if (params.store_by_tma) {
      return store_by_tma<Kernel>(params, shared, results, bias, first_bias, place);
    } else if (params.store_by_copies) {
      if constexpr (has_copied_store(Kernel::stored_sums, Kernel::config))
        return store_by_copies<Kernel>(params, shared, results, bias, place);
    }
    store_staged<Kernel>(params, shared, results.exactly(), place);
  }
};

}  // namespace tileon::sm90
