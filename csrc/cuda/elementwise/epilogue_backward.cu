// A gradient on its way through activation and bias: one pass over it and over what was saved, which also adds up the
// gradient of the bias. Bound by memory: it reads two elements and writes one.
//
// A CTA has a share of the rows of 256 columns. Its warps take rows in turn, a lane keeps to its eight columns, and the
// sums of the CTA's rows go to a workspace, which a second kernel adds up: in a fixed order, without atomics.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/row_walk.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kLaneColumns = 8;
constexpr int kColumns = 32 * kLaneColumns;  // a CTA's
constexpr int kRowsAtOnce = 2;               // a warp's

// CTAs of an SM: as many loads on their way as registers allow, 64 a thread on Hopper; elsewhere ptxas takes more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
template <typename Element>
constexpr int kResident = sizeof(Element) > 2 ? 2 : 3;
#else
template <typename Element>
constexpr int kResident = sizeof(Element) > 4 ? 2 : 4;
#endif

template <typename Element>
using AccumulatorOf = std::conditional_t<std::is_same_v<Element, double>, double, float>;

// A lane's columns of one row.
template <typename Element>
struct alignas(16) LaneRow {
  static constexpr int kVectors = kLaneColumns * sizeof(Element) / 16;
  Element elements[kLaneColumns];

  __device__ __forceinline__ void read_vectors(const Element* from) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) reinterpret_cast<uint4*>(elements)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  __device__ __forceinline__ void read_elements(const Element* from, int64_t stride, int columns) {
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) elements[i] = i < columns ? from[i * stride] : Element{};
  }
  __device__ __forceinline__ void write_vectors(Element* to) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(elements)[i];
  }
  __device__ __forceinline__ void write_elements(Element* to, int columns) const {
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i)
      if (i < columns) to[i] = elements[i];
  }
};

struct Launch {
  int64_t rows_per_share;
  int shares;         // CTAs that share the rows of their columns
  bool grad_vectors;  // eight columns of grad are whole vectors
  bool own_vectors;   // eight columns of saved and grad_z (rows of n elements) are whole vectors
};

// Adds up the lanes' sums of a CTA's warps, in their order, and stores them as this share's of the CTA's columns.
template <typename Accumulator>
__device__ __forceinline__ void add_warps(const Accumulator (&lane_sums)[kLaneColumns], Accumulator* share, int64_t n) {
  auto& warp_sums = ptx::static_shared<Accumulator[kWarps][kColumns]>();
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i)
    warp_sums[threadIdx.x / 32][threadIdx.x % 32 * kLaneColumns + i] = lane_sums[i];
  __syncthreads();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  static_assert(kThreads == kColumns);
  if (column >= n) return;
  Accumulator total = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) total += warp_sums[i][threadIdx.x];
  share[column] = total;
}

template <typename Grad, typename Out>
__global__ void __launch_bounds__(kThreads, kResident<Grad>)
    epilogue_backward(const __grid_constant__ EpilogueBackwardProblem problem, const __grid_constant__ Launch launch,
                      AccumulatorOf<Grad>* __restrict__ share_sums) {
  using Accumulator = AccumulatorOf<Grad>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane * kLaneColumns;
  const int columns = static_cast<int>(min(problem.n - column, static_cast<int64_t>(kLaneColumns)));  // below 1: none
  const auto slope = static_cast<Accumulator>(problem.slope);
  Accumulator sums[kLaneColumns] = {};

  const auto read_row = [&](int64_t row, LaneRow<Grad>& grad, LaneRow<Grad>& saved) {
    const int64_t matrix = problem.batch == 1 ? 0 : row / problem.m;
    const Grad* from = static_cast<const Grad*>(problem.grad) + matrix * problem.stride_batch +
                       (row - matrix * problem.m) * problem.stride_m + column * problem.stride_n;
    launch.grad_vectors ? grad.read_vectors(from) : grad.read_elements(from, problem.stride_n, columns);
    if (problem.saved == nullptr) return;
    const Grad* own = static_cast<const Grad*>(problem.saved) + row * problem.n + column;
    launch.own_vectors ? saved.read_vectors(own) : saved.read_elements(own, 1, columns);
  };
  const auto finish_row = [&](int64_t row, const LaneRow<Grad>& grad, const LaneRow<Grad>& saved) {
    LaneRow<Out> out;
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) {
      const Accumulator x = problem.saved == nullptr ? Accumulator(0) : widen(saved.elements[i]);
      const Accumulator derived =
          through_activation<Accumulator>(widen(grad.elements[i]), x, problem.activation, slope);
      sums[i] += derived;
      out.elements[i] = round_to<Out>(derived);
    }
    Out* to = static_cast<Out*>(problem.grad_z) + row * problem.n + column;
    launch.own_vectors ? out.write_vectors(to) : out.write_elements(to, columns);
  };

  if (columns > 0) {
    const int64_t first = blockIdx.y * launch.rows_per_share;
    const int64_t end = min(first + launch.rows_per_share, problem.rows());
    int64_t row = first + warp;
    for (; row + (kRowsAtOnce - 1) * kWarps < end; row += kRowsAtOnce * kWarps) {
      LaneRow<Grad> grad[kRowsAtOnce], saved[kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) read_row(row + i * kWarps, grad[i], saved[i]);
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) finish_row(row + i * kWarps, grad[i], saved[i]);
    }
    for (; row < end; row += kWarps) {
      LaneRow<Grad> grad, saved;
      read_row(row, grad, saved);
      finish_row(row, grad, saved);
    }
  }
  if (share_sums != nullptr) add_warps(sums, share_sums + blockIdx.y * problem.n, problem.n);
}

// grad_bias, of the sums of the rows' shares.
template <typename Accumulator>
__global__ void __launch_bounds__(kThreads)
    add_shares(const __grid_constant__ EpilogueBackwardProblem problem, const Accumulator* share_sums, int shares) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= problem.n) return;
  Accumulator total = 0;
#pragma unroll 8
  for (int share = 0; share < shares; ++share) total += share_sums[share * problem.n + column];
  switch (problem.bias_dtype) {
    case DType::kFloat16:
      static_cast<__half*>(problem.grad_bias)[column] = round_to<__half>(static_cast<float>(total));
      break;
    case DType::kBFloat16:
      static_cast<__nv_bfloat16*>(problem.grad_bias)[column] = round_to<__nv_bfloat16>(static_cast<float>(total));
      break;
    case DType::kFloat64:
      static_cast<double*>(problem.grad_bias)[column] = total;
      break;
    default:
      static_cast<float*>(problem.grad_bias)[column] = static_cast<float>(total);
  }
}

int64_t blocks_of(int64_t columns) { return (columns + kColumns - 1) / kColumns; }

// Shares for twice as many CTAs as the GPU holds at once, but of 32 rows at least, which pays for their sums.
Launch plan(const EpilogueBackwardProblem& problem, int sm_count) {
  const int64_t wanted =
      std::max<int64_t>(2 * kResident<float> * sm_count / std::max<int64_t>(blocks_of(problem.n), 1), 1);
  const int64_t max_shares = std::max<int64_t>((problem.rows() + 31) / 32, 1);
  Launch launch{};
  launch.rows_per_share =
      std::max<int64_t>((problem.rows() + std::min(wanted, max_shares) - 1) / std::min(wanted, max_shares), 1);
  launch.shares = static_cast<int>((problem.rows() + launch.rows_per_share - 1) / launch.rows_per_share);
  const int64_t bytes = info(problem.grad_dtype).bytes;
  const bool whole = problem.n % kLaneColumns == 0;
  const int64_t stride_batch = problem.batch == 1 ? 0 : problem.stride_batch;
  launch.grad_vectors = whole && has_vectors(problem.grad, problem.stride_m * bytes, problem.stride_n, 16) &&
                        stride_batch * bytes % 16 == 0;
  launch.own_vectors = whole && (problem.saved == nullptr || has_vectors(problem.saved, 0, 1, 16));
  return launch;
}

// Matrices that follow one another are one matrix.
EpilogueBackwardProblem flattened(EpilogueBackwardProblem problem) {
  if (problem.batch > 1 && problem.stride_batch == problem.m * problem.stride_m) {
    problem.m *= problem.batch;
    problem.batch = 1;
  }
  return problem;
}

template <typename Grad, typename Out>
void launch_kernels(const EpilogueBackwardProblem& problem, void* workspace, int sm_count, cudaStream_t stream) {
  using Accumulator = AccumulatorOf<Grad>;
  const Launch launch = plan(problem, sm_count);
  const int64_t blocks = blocks_of(problem.n);
  if (blocks > 0x7fffffff) throw std::runtime_error("tileon: rows of more than 2^39 elements");
  auto* share_sums = problem.grad_bias == nullptr ? nullptr : static_cast<Accumulator*>(workspace);
  if (launch.shares > 0) {
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(launch.shares));
    launch_kernel("launching epilogue_backward", {.grid = grid, .threads = kThreads, .stream = stream},
                  &epilogue_backward<Grad, Out>, problem, launch, share_sums);
  }
  if (problem.grad_bias == nullptr) return;
  launch_kernel("launching add_shares",
                {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads, .stream = stream},
                &add_shares<Accumulator>, problem, share_sums, launch.shares);
}

}  // namespace

int64_t epilogue_backward_workspace(const EpilogueBackwardProblem& problem, int sm_count) {
  if (problem.grad_bias == nullptr) return 0;
  return plan(flattened(problem), sm_count).shares * problem.n * (problem.grad_dtype == DType::kFloat64 ? 8 : 4);
}

void run_epilogue_backward(const EpilogueBackwardProblem& whole, void* workspace, int sm_count, cudaStream_t stream) {
  if (whole.n == 0) return;
  const EpilogueBackwardProblem problem = flattened(whole);
  if (problem.grad_dtype == DType::kFloat64)
    return launch_kernels<double, double>(problem, workspace, sm_count, stream);
  visit_elements(problem.grad_dtype, [&](auto grad) {
    visit_elements(problem.out_dtype, [&](auto out) {
      launch_kernels<decltype(grad), decltype(out)>(problem, workspace, sm_count, stream);
    });
  });
}

}  // namespace tileon
