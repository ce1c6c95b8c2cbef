// From accumulators to 16-bit rows of the output with any activation, and the activation's argument besides, where that
// is wanted: through TMA, or, where TMA cannot write the rows, by the lanes themselves.
//
// The chunks are those of tma_store.cuh, but a chunk's parts take turns in one piece of code: exp and erf once for each
// sum and formula would be more code than a cache of instructions holds, and few registers are left beside the sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/common/column_store.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/epilogue/staged_store.cuh"
#include "cuda/sm90/epilogue/tma_store.cuh"

namespace tileon::sm90 {

// ---- from a chunk in a warp's buffer to rows that TMA cannot write, because they do not begin at multiples of 16
// bytes: an output of 50257 columns has such rows ----

// Two neighbouring values; at once, where both are there and lie at a multiple of four bytes.
__device__ __forceinline__ void store_two(uint16_t* at, uint32_t two, bool both) {
  if (both && reinterpret_cast<uintptr_t>(at) % 4 == 0) {
    *reinterpret_cast<uint32_t*>(at) = two;
  } else {
    at[0] = static_cast<uint16_t>(two);
    if (both) at[1] = static_cast<uint16_t>(two >> 16);
  }
}

// The chunk goes to (place.row, place.column) of `data`, which is laid out as the output. A lane takes two columns of a
// row; what lies beyond the output's end is left out.
template <typename Kernel, int kColumns>
__device__ __forceinline__ void copy_chunk(const Output& out, void* data, int64_t m, int64_t n, uint32_t buffer,
                                           const StorePlace& place) {
  constexpr int rows = Kernel::swapped ? kColumns : kStoreRows;
  constexpr int words_of_row = (Kernel::swapped ? kStoreRows : kColumns) / 2;
  constexpr int rounds = rows * words_of_row / 32;
  constexpr int at_once = rounds % 4 == 0 ? 4 : rounds % 2 == 0 ? 2 : 1;  // loads, before their stores
  static_assert(rows * words_of_row % 32 == 0);
  const int lane = threadIdx.x % 32;
  auto* first = static_cast<uint16_t*>(data) + place.batch * out.stride_batch + place.column;
#pragma unroll 1
  for (int round = 0; round < rounds; round += at_once) {
    uint32_t words[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int word = lane + 32 * (round + i);
      words[i] = ptx::load_shared_4(
          buffer + RowsInBuffer<Kernel, kColumns>::place_of(word / words_of_row, word % words_of_row * 2));
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int word = lane + 32 * (round + i);
      const int row = place.row + word / words_of_row, column = word % words_of_row * 2;
      if (row < m && place.column + column < n)
        store_two(first + row * out.stride_m + column, words[i], place.column + column + 1 < n);
    }
  }
}

// A warp's part of a tile on its way through the warp's buffers.
template <typename Kernel>
class ActivatedStore {
  static constexpr int chunks_per_row = store_chunks(Kernel::columns);
  static constexpr int chunks = Kernel::row_blocks * chunks_per_row;
  static constexpr int tail = store_tail(Kernel::columns);
  // A part's columns: a thread has half as many sums of a part. More columns hide more of the formulas' latency.
  static constexpr int sums = Kernel::row_blocks * Kernel::columns / 2;
  static constexpr int part_columns = sums >= 120 ? 8 : sums > 96 || (tail > 0 && tail < 32) ? 16 : 32;
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
    const bool keeps_argument = params_.problem.pre_activation != nullptr;
    bool is_argument = keeps_argument;  // which comes first
#pragma unroll 1
    for (int chunk = 0; chunk < chunks;) {
      store_chunk(results, chunk, is_argument);
      if (!is_argument) ++chunk;
      is_argument = keeps_argument && !is_argument;
    }
  }

 private:
  template <typename Results>
  __device__ __forceinline__ void store_chunk(const Results& results, int chunk, bool is_argument) {
    const int block = chunk / chunks_per_row, begin = chunk % chunks_per_row * kStoreColumns;
    const uint32_t buffer = shared_ + next_buffer_ * kStoreBufferBytes;
    next_buffer_ = next_buffer_ + 1 == buffers ? 0 : next_buffer_ + 1;
    const bool is_tail = begin + kStoreColumns > Kernel::columns;
    const int columns = is_tail ? tail : kStoreColumns;
    // The buffer's last chunk has left it, through TMA or by the lanes.
    if (ptx::elect_one()) ptx::tma_wait_read<buffers - 1>();
    __syncwarp();
#pragma unroll 1
    for (int column = 0; column < columns; column += part_columns) {
      Values values;
      with_constant<0, Kernel::row_blocks * parts_per_row>(block * parts_per_row + (begin + column) / part_columns,
                                                           [&](auto part) { read<part.value>(results, values); });
      if (!is_argument) activate_all(values, params_.problem.epilogue);
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
    const int down = Kernel::swapped ? begin : block * 64, along = Kernel::swapped ? block * 64 : begin;
    const StorePlace place{place_.row + down, place_.column + along, place_.batch};
    if (params_.store_by_tma) {
      ptx::fence_proxy_async();
      __syncwarp();
      const CUtensorMap& map = is_argument ? (is_tail ? params_.map_pre_activation_tail : params_.map_pre_activation)
                                           : (is_tail ? params_.map_out_tail : params_.map_out);
      ptx::tma_store_3d_by_warp(map, buffer, place.column, place.row, place.batch);
    } else {
      __syncwarp();
      copy(buffer, is_tail, is_argument, place);
    }
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

// The Store of dense products of 16 bits.
template <typename Kernel>
struct DenseStore {
  // As TmaStore's.
  template <typename Results>
  static __device__ __forceinline__ void store(const KernelParams& params, unsigned char* shared,
                                               const Results& results, const float* bias,
                                               const FirstBias<Kernel>& first_bias, const StorePlace& place) {
    if constexpr (has_activated_store(Kernel::config)) {
      if (params.epilogue_op == EpilogueOp::kActivation)
        return ActivatedStore<Kernel>(params, shared, bias, place).store(results);
    }
    TmaStore<Kernel>::store(params, shared, results, bias, first_bias, place);
  }
};

}  // namespace tileon::sm90
