// One operand's k-blocks on their way from global to shared memory, for the SIMT and float64 kernels: always
// [block_k][tile_mn].
#pragma once

#include <cstdint>

#include "../../problem.h"
#include "../ptx/cp_async.cuh"
#include "operand_access.h"

namespace tileon::sm80 {

enum class PanelAccess : int8_t {
  kVectorsAlongMn,  // 16-byte copies: mn-major and aligned
  kElements,        // one copy an element, through both strides: k-major, or anything else
};

// Rows of tile_mn elements and `kPaddingBytes` more, which spread the rows over the banks.
template <typename Element_, int kTileMn, int kBlockK, int kPaddingBytes>
struct Panel {
  using Element = Element_;
  static constexpr int tile_mn = kTileMn;
  static constexpr int block_k = kBlockK;
  static constexpr int vector = 16 / int(sizeof(Element));  // elements in 16 bytes
  static constexpr int pitch = kTileMn + kPaddingBytes / int(sizeof(Element));
  static constexpr int bytes = kBlockK * pitch * int(sizeof(Element));
};

// Fetches k-blocks in order with cp.async. Everything outside the operand becomes zero.
template <typename Shape, PanelAccess kAccess, int kThreads>
class PanelReader {
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
  __device__ PanelReader(const Operand& operand, int64_t batch, int64_t mn_begin, int64_t mn_size, int64_t k_size) {
    k_ = kVectors ? threadIdx.x / kThreadsAlongMn : threadIdx.x % kThreadsAlongK;
    mn_ = (kVectors ? threadIdx.x % kThreadsAlongMn : threadIdx.x / kThreadsAlongK) * kWidth;
    source_ = static_cast<const Element*>(operand.data) + batch * operand.stride_batch +
              (mn_begin + mn_) * operand.stride_mn + k_ * operand.stride_k;
    stride_mn_ = operand.stride_mn;
    stride_k_ = operand.stride_k;
    k_left_ = k_size - k_;
    const int64_t mn_left = mn_size - mn_begin - mn_;
#pragma unroll
    for (int i = 0; i < kPassesMn; ++i) bytes_[i] = bytes_of(mn_left - i * kThreadsAlongMn * kWidth);
  }

  // Starts the copies of the next k-block into the panel at `shared`.
  __device__ __forceinline__ void fetch(uint32_t shared) {
    const uint32_t target = shared + (k_ * Shape::pitch + mn_) * int(sizeof(Element));
#pragma unroll
    for (int j = 0; j < kPassesK; ++j) {
      const bool k_valid = j * kThreadsAlongK < k_left_;
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
    k_left_ -= kBlockK;
  }

  // The hardware puts the copies where they belong.
  __device__ __forceinline__ void land() {}

 private:
  static __device__ int bytes_of(int64_t mn_left) {
    const int64_t elements = mn_left < 0 ? 0 : mn_left < kWidth ? mn_left : kWidth;
    return static_cast<int>(elements) * int(sizeof(Element));
  }

  int k_;  // of this thread's first copy
  int mn_;
  const Element* source_;
  int64_t stride_mn_;
  int64_t stride_k_;
  int64_t k_left_;        // elements of k from this thread's first one to the end
  int bytes_[kPassesMn];  // of each copy that lie inside the operand
};

inline PanelAccess panel_access(const Operand& operand, const GemmProblem& problem, int64_t mn) {
  const OperandAccess access = operand_access(operand, problem.batch, mn, problem.k, info(problem.dtype).bytes);
  return access.vectors && access.major == Major::kMn ? PanelAccess::kVectorsAlongMn : PanelAccess::kElements;
}

}  // namespace tileon::sm80
