// Copies of operands into rows that begin at multiples of 16 bytes, for kernels that read nothing else; both operands
// of a product in one launch.
//
// A copy is bound by memory: each byte is read and written once. So every store is one of 16 bytes, and every load as
// wide as the operand's alignment allows, or, of an operand whose columns become rows, a whole sector of each line.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "cuda/common/tile_order.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kChunk = 16;  // bytes of a store
constexpr int kThreads = 256;

// CTAs of an SM: on compute capability 10.0 ptxas takes more than the 64 registers of a thread that four of them leave.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ / 100 == 10
constexpr int kCtasPerSm = 3;
#else
constexpr int kCtasPerSm = 4;
#endif

// What the rows of a copy are made of.
enum class Source {
  kUnits1,  // rows of the operand, in units of so many bytes
  kUnits2,
  kUnits4,
  kUnits8,
  kUnits16,
  kBytes,  // columns of bytes
  kWords,  // columns of bytes, of which four are adjacent and aligned
  kFours,  // columns of elements of four bytes
};

// One operand's part of a launch: CTAs from `first_cta` on, blocks of the copy, along its rows first.
struct CopyPart {
  OperandCopyProblem problem;
  Source source = Source::kUnits1;
  int log2_lanes = 0;       // of units: threads that have the chunks of one row side by side
  int64_t unit_stride = 0;  // bytes from one unit to the next
  int first_cta = 0;
  FastDivisor blocks_of_row;
  FastDivisor blocks_of_column;
};

struct CopyParams {
  CopyPart parts[2];
};

// ---- rows of the operand are rows of the copy ----

template <int kBytes>
using UnitOf =
    std::tuple_element_t<std::bit_width(unsigned{kBytes}) - 1, std::tuple<uint8_t, uint16_t, uint32_t, uint2, uint4>>;

// Of small units a chunk alone has as many loads as a thread should have under way.
constexpr int rows_of_thread(int unit) { return unit >= 4 ? 4 : unit; }
constexpr int rows_of_block(int log2_lanes, int unit) { return (kThreads >> log2_lanes) * rows_of_thread(unit); }

// A thread has a chunk of each of a few rows.
template <int kBytes>
__device__ __forceinline__ void copy_rows(const CopyPart& part, int row_block, int column_block, int64_t matrix) {
  const OperandCopyProblem& problem = part.problem;
  using Unit = UnitOf<kBytes>;
  constexpr int units = kChunk / kBytes, rows = rows_of_thread(kBytes);
  struct alignas(kChunk) Chunk {
    Unit units[kChunk / kBytes];
  };
  const int lanes = 1 << part.log2_lanes;
  const int64_t chunk = static_cast<int64_t>(column_block) * lanes + (threadIdx.x & (lanes - 1));
  const int64_t left = problem.row_bytes() / kBytes - chunk * units;  // units from here to the row's end
  if (left <= 0) return;
  const int64_t first_row =
      static_cast<int64_t>(row_block) * rows_of_block(part.log2_lanes, kBytes) + (threadIdx.x >> part.log2_lanes);
  const int row_step = kThreads >> part.log2_lanes;
  const uint8_t* from = problem.from + matrix * problem.from_batch + chunk * units * part.unit_stride;
  uint8_t* to = problem.to + matrix * problem.to_batch + chunk * kChunk;

  Chunk held[rows] = {};
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int64_t row = first_row + i * row_step;
#pragma unroll
    for (int unit = 0; unit < units; ++unit)
      if (row < problem.rows && unit < left)
        held[i].units[unit] = *reinterpret_cast<const Unit*>(from + row * problem.from_row + unit * part.unit_stride);
  }
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int64_t row = first_row + i * row_step;
    if (row < problem.rows) *reinterpret_cast<Chunk*>(to + row * problem.to_row) = held[i];
  }
}

// ---- columns of the operand are rows of the copy: elements of one byte ----

constexpr int kTile = 128;    // rows of a block of the copy, and bytes of each
constexpr int kWord = 4;      // rows whose bytes are adjacent in the operand, as they are loaded
constexpr int kRowLanes = 8;  // lanes of a warp along the rows: their words are a sector of the operand
constexpr int kColumnLanes = 32 / kRowLanes;
constexpr int kRowSteps = kTile / (kRowLanes * kWord);        // of a warp, to the end of a block's rows
constexpr int kColumnSteps = kTile / (kColumnLanes * kWord);  // and of its columns
constexpr int kChunks = kTile / kChunk;

struct alignas(kChunk) Tile {
  uint8_t bytes[kTile * kTile];
};

// Where byte `column` of a block's row is in shared memory: the chunks of a row stand in another order in every fourth
// row, so that the words that a warp writes and the chunks that it reads meet every bank once.
__device__ __forceinline__ int tile_offset(int row, int column) {
  const int chunk = column / kChunk ^ row / kWord % kChunks;
  return row * kTile + chunk * kChunk + column % kChunk;
}

// Four words of four bytes, transposed: byte i of word j becomes byte j of word i.
__device__ __forceinline__ void transpose_words(uint32_t (&words)[kWord]) {
  const uint32_t low01 = ptx::prmt(words[0], words[1], 0x5140), low23 = ptx::prmt(words[2], words[3], 0x5140);
  const uint32_t high01 = ptx::prmt(words[0], words[1], 0x7362), high23 = ptx::prmt(words[2], words[3], 0x7362);
  words[0] = ptx::prmt(low01, low23, 0x5410);
  words[1] = ptx::prmt(low01, low23, 0x7632);
  words[2] = ptx::prmt(high01, high23, 0x5410);
  words[3] = ptx::prmt(high01, high23, 0x7632);
}

// The bytes of four rows of the copy at one column; 0 where a row is not there.
template <bool kWords>
__device__ __forceinline__ uint32_t load_word(const uint8_t* from, int64_t stride, int64_t rows) {
  if (kWords && rows >= kWord) return *reinterpret_cast<const uint32_t*>(from);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < kWord; ++i)
    if (i < rows) word |= static_cast<uint32_t>(from[i * stride]) << (8 * i);
  return word;
}

template <bool kWords>
__device__ __forceinline__ void transpose_bytes(const CopyPart& part, int row_block, int column_block, int64_t matrix) {
  const OperandCopyProblem& problem = part.problem;
  uint8_t* tile = ptx::static_shared<Tile>().bytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first_row = static_cast<int64_t>(row_block) * kTile;
  const int64_t first_column = static_cast<int64_t>(column_block) * kTile;
  const uint8_t* from =
      problem.from + matrix * problem.from_batch + first_row * problem.from_row + first_column * problem.from_column;
  constexpr int steps = kRowSteps * kColumnSteps / (kThreads / 32);  // of this warp
  const auto row_of = [&](int step) {
    return ((step * (kThreads / 32) + warp) % kRowSteps * kRowLanes + lane % kRowLanes) * kWord;
  };
  const auto column_of = [&](int step) {
    return ((step * (kThreads / 32) + warp) / kRowSteps * kColumnLanes + lane / kRowLanes) * kWord;
  };
  uint32_t words[steps][kWord] = {};  // all of them are under way before the first one is needed
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int row = row_of(step), column = column_of(step);
#pragma unroll
    for (int i = 0; i < kWord; ++i)
      if (first_column + column + i < problem.columns)
        words[step][i] = load_word<kWords>(from + row * problem.from_row + (column + i) * problem.from_column,
                                           problem.from_row, problem.rows - first_row - row);
  }
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    transpose_words(words[step]);
#pragma unroll
    for (int i = 0; i < kWord; ++i)
      *reinterpret_cast<uint32_t*>(tile + tile_offset(row_of(step) + i, column_of(step))) = words[step][i];
  }
  __syncthreads();  // the tile is whole
  uint8_t* to = problem.to + matrix * problem.to_batch + first_row * problem.to_row + first_column;
#pragma unroll
  for (int chunk = threadIdx.x; chunk < kTile * kChunks; chunk += kThreads) {
    const int row = chunk / kChunks, column = chunk % kChunks * kChunk;
    if (first_row + row < problem.rows && first_column + column < problem.columns)
      *reinterpret_cast<uint4*>(to + row * problem.to_row + column) =
          *reinterpret_cast<const uint4*>(tile + tile_offset(row, column));
  }
}

// ---- columns of the operand are rows of the copy: elements of four bytes ----

constexpr int kFoursRows = 64;     // of a block of the copy
constexpr int kFoursColumns = 32;  // elements: a line of 128 bytes

__device__ __forceinline__ void transpose_fours(const CopyPart& part, int row_block, int column_block, int64_t matrix) {
  const OperandCopyProblem& problem = part.problem;
  constexpr int pitch = kFoursColumns + 1;  // spreads a column over the banks
  static_assert(kFoursRows * pitch * sizeof(uint32_t) <= sizeof(Tile));
  auto* tile = reinterpret_cast<uint32_t*>(ptx::static_shared<Tile>().bytes);
  const int64_t first_row = static_cast<int64_t>(row_block) * kFoursRows;
  const int64_t first_column = static_cast<int64_t>(column_block) * kFoursColumns;
  const uint8_t* from =
      problem.from + matrix * problem.from_batch + first_row * problem.from_row + first_column * problem.from_column;
  constexpr int columns_at_once = kThreads / kFoursRows, loads = kFoursColumns / columns_at_once;
  const int row = threadIdx.x % kFoursRows, first = threadIdx.x / kFoursRows;
  uint32_t held[loads] = {};
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const int column = first + i * columns_at_once;
    if (first_row + row < problem.rows && first_column + column < problem.columns)
      held[i] = *reinterpret_cast<const uint32_t*>(from + row * problem.from_row + column * problem.from_column);
  }
#pragma unroll
  for (int i = 0; i < loads; ++i) tile[row * pitch + first + i * columns_at_once] = held[i];
  __syncthreads();  // the tile is whole
  constexpr int of_chunk = kChunk / int(sizeof(uint32_t)), chunks = kFoursColumns / of_chunk;
  uint8_t* to = problem.to + matrix * problem.to_batch + first_row * problem.to_row + first_column * sizeof(uint32_t);
#pragma unroll
  for (int chunk = threadIdx.x; chunk < kFoursRows * chunks; chunk += kThreads) {
    const int to_row = chunk / chunks, column = chunk % chunks * of_chunk;
    const uint32_t* words = tile + to_row * pitch + column;
    if (first_row + to_row < problem.rows && first_column + column < problem.columns)
      *reinterpret_cast<uint4*>(to + to_row * problem.to_row + column * sizeof(uint32_t)) = {words[0], words[1],
                                                                                             words[2], words[3]};
  }
}

// ---- the kernel ----

__global__ void __launch_bounds__(kThreads, kCtasPerSm) copy_operands(const __grid_constant__ CopyParams params) {
  const int cta = static_cast<int>(blockIdx.x);
  const CopyPart& part = params.parts[cta >= params.parts[1].first_cta];
  const int index = cta - part.first_cta, row_index = part.blocks_of_row.divide(index);
  const int column_block = index - row_index * part.blocks_of_row.divisor();
  const int matrix = part.blocks_of_column.divide(row_index);
  const int row_block = row_index - matrix * part.blocks_of_column.divisor();
  switch (part.source) {
    case Source::kUnits1:
      return copy_rows<1>(part, row_block, column_block, matrix);
    case Source::kUnits2:
      return copy_rows<2>(part, row_block, column_block, matrix);
    case Source::kUnits4:
      return copy_rows<4>(part, row_block, column_block, matrix);
    case Source::kUnits8:
      return copy_rows<8>(part, row_block, column_block, matrix);
    case Source::kUnits16:
      return copy_rows<16>(part, row_block, column_block, matrix);
    case Source::kBytes:
      return transpose_bytes<false>(part, row_block, column_block, matrix);
    case Source::kWords:
      return transpose_bytes<true>(part, row_block, column_block, matrix);
    case Source::kFours:
      return transpose_fours(part, row_block, column_block, matrix);
  }
}

// Where the operand begins and its strides, as bits: what all of them are multiples of.
int64_t alignment_bits(const OperandCopyProblem& problem) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.from)) | (problem.rows > 1 ? problem.from_row : 0) |
         (problem.batch > 1 ? problem.from_batch : 0);
}

// Bytes of the widest unit of which all rows of the operand are made, from where they begin to where they end.
int widest_unit(const OperandCopyProblem& problem) {
  if (problem.from_column != problem.element_bytes) return problem.element_bytes;
  const int64_t bits = alignment_bits(problem) | problem.row_bytes() | kChunk;
  return static_cast<int>(bits & -bits);
}

Source source_of_columns(const OperandCopyProblem& problem) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.from));
  const int64_t bits = address | problem.from_column | (problem.batch > 1 ? problem.from_batch : 0);
  return problem.from_row == 1 && bits % kWord == 0 ? Source::kWords : Source::kBytes;
}

// The part of a launch that begins with CTA `first_cta`, and the CTA behind it.
int64_t plan_part(const OperandCopyProblem& problem, int64_t first_cta, CopyPart& part) {
  part.problem = problem;
  part.first_cta = static_cast<int>(first_cta);
  const bool across = problem.from_row < problem.from_column && problem.from_column != problem.element_bytes;
  int64_t rows = kTile, bytes = kTile;  // of a block
  if (across && problem.element_bytes == 1 && problem.rows > 1) {
    part.source = source_of_columns(problem);
  } else if (across && problem.element_bytes == 4 && problem.rows > 1) {
    part.source = Source::kFours;
    rows = kFoursRows;
    bytes = kFoursColumns * 4;
  } else {
    const int unit = widest_unit(problem);
    part.source = static_cast<Source>(std::bit_width(static_cast<unsigned>(unit)) - 1);
    part.unit_stride = problem.from_column == problem.element_bytes ? unit : problem.from_column;
    const auto chunks = static_cast<uint64_t>((problem.row_bytes() + kChunk - 1) / kChunk);
    part.log2_lanes = std::bit_width(std::min<uint64_t>(chunks, kThreads) - 1);
    rows = rows_of_block(part.log2_lanes, unit);
    bytes = int64_t{kChunk} << part.log2_lanes;
  }
  const int64_t of_row = (problem.row_bytes() + bytes - 1) / bytes, of_column = (problem.rows + rows - 1) / rows;
  const double end = static_cast<double>(of_row) * static_cast<double>(of_column) * static_cast<double>(problem.batch) +
                     static_cast<double>(first_cta);
  if (end > std::numeric_limits<int>::max()) throw std::runtime_error("tileon: an operand is too large to be copied");
  part.blocks_of_row = FastDivisor(static_cast<int>(of_row));
  part.blocks_of_column = FastDivisor(static_cast<int>(of_column));
  return static_cast<int64_t>(end);
}

}  // namespace

void run_operand_copies(std::span<const OperandCopyProblem> problems, cudaStream_t stream) {
  CopyParams params;
  int64_t ctas = 0;
  int parts = 0;
  for (const OperandCopyProblem& problem : problems)
    if (problem.batch > 0 && problem.rows > 0 && problem.columns > 0)
      ctas = plan_part(problem, ctas, params.parts[parts++]);
  if (parts == 0) return;
  if (parts == 1) params.parts[1].first_cta = static_cast<int>(ctas);
  launch_kernel("launching the copy of operands",
                {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .stream = stream}, &copy_operands,
                params);
}

}  // namespace tileon
