// One operand's k-blocks on their way from global to shared memory, for the SIMT and float64 kernels:
// [block_k][tile_mn], or [tile_mn][block_k] where the operand lies so and the kernel reads single elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/heuristics/operand_access.h"

namespace tileon::sm80 {

// Rows of tile_mn elements and `kPaddingBytes` more, which spread the rows over the banks.
template <typename Element_, int kTileMn, int kBlockK, int kPaddingBytes>
struct Panel {
  using Element = Element_;
  static constexpr int tile_mn = kTileMn;
  static constexpr int block_k = kBlockK;
  static constexpr int vector = 16 / int(sizeof(Element));  // elements in 16 bytes
  static constexpr int pitch = kTileMn + kPaddingBytes / int(sizeof(Element));
  static constexpr int bytes = kBlockK * pitch * int(sizeof(Element));

  // In elements from the panel's start.
  static __device__ __forceinline__ int place(int k, int mn) { return k * pitch + mn; }
};

// The same, of rows of block_k elements.
template <typename Element_, int kTileMn, int kBlockK, int kPaddingBytes>
struct RowPanel {
  using Element = Element_;
  static constexpr int tile_mn = kTileMn;
  static constexpr int block_k = kBlockK;
  static constexpr int vector = 16 / int(sizeof(Element));
  static constexpr int pitch = kBlockK + kPaddingBytes / int(sizeof(Element));
  static constexpr int bytes = kTileMn * pitch * int(sizeof(Element));

  static __device__ __forceinline__ int place(int k, int mn) { return mn * pitch + k; }
};

// Fetches k-blocks in order with cp.async. Everything outside the operand becomes zero.
template <typename Shape, PanelAccess kAccess, int kThreads>
class CopyingPanelReader {
  using Element = typename Shape::Element;
  static constexpr int kTileMn = Shape::tile_mn;
  static constexpr int kBlockK = Shape::block_k;
  static constexpr bool kVectors = kAccess == PanelAccess::kVectorsAlongMn;
  // Threads of one pass lie along k first for elements (the usual major there), along mn for vectors.
  static constexpr int kThreadsAlongK = kVectors ? kThreads / (kTileMn / Shape::vector) : 8;
  static constexpr int kThreadsAlongMn = kThreads / kThreadsAlongK;
  static constexpr int kWidth = kVectors ? Shape::vector : 1;  // elements a copy
  static constexpr int kPassesK = kBlockK / kThreadsAlongK;
  static constexpr int kPassesMn = kTileMn / (kThreadsAlongMn * kWidth);
  static_assert(kBlockK % kThreadsAlongK == 0 && kTileMn % (kThreadsAlongMn * kWidth) == 0);

 public:
  __device__ CopyingPanelReader(const Matrix& operand, int64_t batch, int64_t k_begin, int64_t mn_begin,
                                int64_t mn_size) {
    k_ = kVectors ? threadIdx.x / kThreadsAlongMn : threadIdx.x % kThreadsAlongK;
    mn_ = (kVectors ? threadIdx.x % kThreadsAlongMn : threadIdx.x / kThreadsAlongK) * kWidth;
    source_ = static_cast<const Element*>(operand.data) + batch * operand.stride_batch +
              (mn_begin + mn_) * operand.stride_mn + (k_begin + k_) * operand.stride_k;
    stride_mn_ = operand.stride_mn;
    stride_k_ = operand.stride_k;
    const int64_t mn_left = mn_size - mn_begin - mn_;
#pragma unroll
    for (int i = 0; i < kPassesMn; ++i) bytes_[i] = bytes_of(mn_left - i * kThreadsAlongMn * kWidth);
  }

  // Starts the copies of the next k-block, of which `k_count` lie inside the operand, into the panel at `shared`.
  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
    const uint32_t target = shared + (k_ * Shape::pitch + mn_) * int(sizeof(Element));
#pragma unroll
    for (int j = 0; j < kPassesK; ++j) {
      const bool k_valid = k_ + j * kThreadsAlongK < k_count;
#pragma unroll
      for (int i = 0; i < kPassesMn; ++i) {
        const Element* source = source_ + i * kThreadsAlongMn * kWidth * stride_mn_ + j * kThreadsAlongK * stride_k_;
        const uint32_t place =
            target + (j * kThreadsAlongK * Shape::pitch + i * kThreadsAlongMn * kWidth) * int(sizeof(Element));
        const int bytes = k_valid ? bytes_[i] : 0;
        if constexpr (kVectors) {
          ptx::cp_async_16(place, source, bytes);
        } else {
          ptx::cp_async_element<sizeof(Element)>(place, source, bytes);
        }
      }
    }
    source_ += kBlockK * stride_k_;
  }

  // The hardware puts the copies where they belong.
  __device__ __forceinline__ void land() {}

 private:
  static __device__ int bytes_of(int64_t mn_left) {
    const int64_t elements = mn_left < 0 ? 0 : mn_left < kWidth ? mn_left : kWidth;
    return static_cast<int>(elements) * int(sizeof(Element));
  }

  int k_;  // where this thread's first copy begins
  int mn_;
  const Element* source_;
  int64_t stride_mn_;
  int64_t stride_k_;
  int bytes_[kPassesMn];  // bytes of each copy inside the operand
};

// Fetches k-blocks of a k-major operand: a thread loads 16 bytes along k, holds them from `fetch` to the next `land`,
// and stores each element to its own row. A quarter of the instructions that element-wise copies would take.
template <typename Shape, int kThreads>
class TransposingPanelReader {
  using Element = typename Shape::Element;
  static constexpr int kVector = Shape::vector;
  // Two threads read 32 bytes of one line, the next two those of the next: whole sectors in, no bank conflict out.
  static constexpr int kThreadsAlongK = 2;
  static constexpr int kThreadsAlongMn = kThreads / kThreadsAlongK;
  static constexpr int kPassesK = Shape::block_k / (kThreadsAlongK * kVector);
  static constexpr int kPassesMn = (Shape::tile_mn + kThreadsAlongMn - 1) / kThreadsAlongMn;
  static constexpr bool kWholePasses = Shape::tile_mn % kThreadsAlongMn == 0;
  static_assert(Shape::block_k % (kThreadsAlongK * kVector) == 0);

 public:
  __device__ TransposingPanelReader(const Matrix& operand, int64_t batch, int64_t k_begin, int64_t mn_begin,
                                    int64_t mn_size) {
    k_ = threadIdx.x % kThreadsAlongK * kVector;
    mn_ = threadIdx.x / kThreadsAlongK;
    mn_count_ = static_cast<int>(mn_size - mn_begin < Shape::tile_mn ? mn_size - mn_begin : Shape::tile_mn);
    stride_mn_ = operand.stride_mn;
    source_ = static_cast<const Element*>(operand.data) + batch * operand.stride_batch +
              (mn_begin + mn_) * operand.stride_mn + k_begin + k_;
  }

  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
#pragma unroll
    for (int i = 0; i < kPassesMn; ++i) {
      const bool mn_valid = mn_ + i * kThreadsAlongMn < mn_count_;
#pragma unroll
      for (int j = 0; j < kPassesK; ++j) {
        const int k_left = mn_valid ? k_count - k_ - j * kThreadsAlongK * kVector : 0;
        load(source_ + i * kThreadsAlongMn * stride_mn_ + j * kThreadsAlongK * kVector, k_left, waiting_[i][j]);
      }
    }
    landing_ = shared + (k_ * Shape::pitch + mn_) * int(sizeof(Element));
    waits_ = true;
    source_ += Shape::block_k;
  }

  __device__ __forceinline__ void land() {
    if (!waits_) return;
#pragma unroll
    for (int i = 0; i < kPassesMn; ++i) {
      if (!kWholePasses && mn_ + i * kThreadsAlongMn >= Shape::tile_mn) continue;
#pragma unroll
      for (int j = 0; j < kPassesK; ++j) {
#pragma unroll
        for (int element = 0; element < kVector; ++element) {
          const int k = j * kThreadsAlongK * kVector + element;
          ptx::store_shared(landing_ + (k * Shape::pitch + i * kThreadsAlongMn) * int(sizeof(Element)),
                            waiting_[i][j][element]);
        }
      }
    }
    waits_ = false;
  }

 private:
  // All of a vector where `k_left` allows, its first elements and zeros where it does not.
  static __device__ __forceinline__ void load(const Element* source, int k_left, Element (&vector)[kVector]) {
    struct alignas(16) Whole {
      Element elements[kVector];
    };
    if (k_left >= kVector) {
      const Whole whole = *reinterpret_cast<const Whole*>(source);
#pragma unroll
      for (int element = 0; element < kVector; ++element) vector[element] = whole.elements[element];
    } else {
#pragma unroll
      for (int element = 0; element < kVector; ++element) vector[element] = element < k_left ? source[element] : 0;
    }
  }

  int k_;  // where this thread's first vector begins
  int mn_;
  int mn_count_;  // the tile's rows or columns inside the operand
  int64_t stride_mn_;
  const Element* source_;
  uint32_t landing_ = 0;
  bool waits_ = false;  // whether a k-block is in registers
  Element waiting_[kPassesMn][kPassesK][kVector];
};

// Fetches k-blocks of a k-major operand into rows, with 16-byte cp.async.
template <typename Shape, int kThreads>
class RowPanelReader {
  using Element = typename Shape::Element;
  static constexpr int kVector = Shape::vector;
  static constexpr int kThreadsAlongK = Shape::block_k / kVector;
  static constexpr int kThreadsAlongMn = kThreads / kThreadsAlongK;
  static constexpr int kPasses = Shape::tile_mn / kThreadsAlongMn;
  static_assert(kThreads % kThreadsAlongK == 0 && Shape::tile_mn % kThreadsAlongMn == 0);

 public:
  __device__ RowPanelReader(const Matrix& operand, int64_t batch, int64_t k_begin, int64_t mn_begin, int64_t mn_size) {
    k_ = threadIdx.x % kThreadsAlongK * kVector;
    mn_ = threadIdx.x / kThreadsAlongK;
    mn_count_ = static_cast<int>(mn_size - mn_begin < Shape::tile_mn ? mn_size - mn_begin : Shape::tile_mn);
    source_ = static_cast<const Element*>(operand.data) + batch * operand.stride_batch +
              (mn_begin + mn_) * operand.stride_mn + k_begin + k_;
    pass_step_ = kThreadsAlongMn * operand.stride_mn;
  }

  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
    const int left = k_count - k_;
    const int bytes = (left <= 0 ? 0 : left < kVector ? left : kVector) * int(sizeof(Element));
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
      ptx::cp_async_16(shared + Shape::place(k_, mn_ + i * kThreadsAlongMn) * int(sizeof(Element)),
                       source_ + i * pass_step_, mn_ + i * kThreadsAlongMn < mn_count_ ? bytes : 0);
    source_ += Shape::block_k;
  }

  // The hardware puts the copies where they belong.
  __device__ __forceinline__ void land() {}

 private:
  int k_;  // where this thread's first copy begins
  int mn_;
  int mn_count_;  // the tile's rows or columns inside the operand
  const Element* source_;
  int64_t pass_step_;
};

// By the kernel's family, the panel of an operand, and what fetches it.
template <Family kFamily, typename Element, int kTileMn, int kBlockK, PanelAccess kAccess, int kThreads>
struct PanelOf {
  static constexpr int padding = panel_padding(kFamily);
  using Shape = Panel<Element, kTileMn, kBlockK, padding>;
  using Reader = std::conditional_t<kAccess == PanelAccess::kVectorsAlongK, TransposingPanelReader<Shape, kThreads>,
                                    CopyingPanelReader<Shape, kAccess, kThreads>>;
};
template <typename Element, int kTileMn, int kBlockK, int kThreads>
struct PanelOf<Family::kDmma, Element, kTileMn, kBlockK, PanelAccess::kVectorsAlongK, kThreads> {
  using Shape = RowPanel<Element, kTileMn, kBlockK, panel_padding(Family::kDmma)>;
  using Reader = RowPanelReader<Shape, kThreads>;
};

}  // namespace tileon::sm80
