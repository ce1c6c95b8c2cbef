// A consumer warpgroup's main loop over split operands (layout/encoding.h): three stages of the pipeline at a time
// are the planes of the same 64 k.
#pragma once

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/mainloop/mma.cuh"

namespace tileon::sm90 {

// The compiler takes sums to be complete once their products are issued. Between two pins they stay where the tensor
// core has them: nothing reads them before the wait in front, or moves them to be read behind the next products.
template <typename Kernel>
__device__ __forceinline__ void pin(typename Kernel::Sums& sums) {
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (float& sum : row) ptx::pin(sum);
}

// The six products of 64 k, in two parts, each of which leaves a group of products under way. Small ones come first,
// since the tensor core cuts what it adds to larger sums.
template <typename Kernel>
class Bf16x6Products {
  using Sums = typename Kernel::Sums;

 public:
  __device__ __forceinline__ Bf16x6Products(const Pipeline& pipeline, PipelineState& at, int first_row)
      : pipeline_(pipeline), at_(at), first_row_(first_row), elected_(threadIdx.x % 128 == 0) {}

  // Begins with the first sums: of the first k, or of the k behind an `end`.
  __device__ __forceinline__ void begin(Sums& sums) {
    low_ = next_stage();
    high_ = next_stage();
    ptx::wgmma_fence();
    issue(low_, high_, 0, sums);
    issue(high_, low_, 1, sums);
    ptx::wgmma_commit();
  }

  // Begins with the sums of the next k. The sums of the k before, `complete`, are complete when it returns.
  __device__ __forceinline__ void go_on(Sums& sums, Sums& complete) {
    const int high = high_, middle = middle_;
    begin(sums);
    ptx::wgmma_wait<1>();
    pin<Kernel>(complete);
    release(high, middle);
  }

  // Products of one shape on the same sums need no wgmma.fence between them (PTX ISA), but ptxas does (C7519).
  __device__ __forceinline__ void finish(Sums& sums) {
    middle_ = next_stage();
    ptx::wgmma_fence();
    issue(middle_, middle_, 1, sums);
    issue(middle_, high_, 1, sums);
    issue(high_, middle_, 1, sums);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (elected_) pipeline_.release(low_);
    ptx::wgmma_fence();
    issue(high_, high_, 1, sums);
    ptx::wgmma_commit();
  }

  // All sums are complete when it returns, `complete` the last ones.
  __device__ __forceinline__ void end(Sums& complete) {
    ptx::wgmma_wait<0>();
    pin<Kernel>(complete);
    release(high_, middle_);
  }

 private:
  // Both at once, since the producer fills `middle` behind `high`.
  __device__ __forceinline__ void release(int high, int middle) const {
    if (!elected_) return;
    pipeline_.release(high);
    pipeline_.release(middle);
  }

  __device__ __forceinline__ int next_stage() {
    pipeline_.wait_until_full(at_);
    const int stage = at_.stage;
    at_.advance(pipeline_.stages());
    return stage;
  }

  __device__ __forceinline__ void issue(int rows, int columns, int accumulate, Sums& sums) const {
    issue_products<Kernel>(pipeline_.data(rows), pipeline_.data(columns), first_row_, accumulate, sums);
  }

  const Pipeline& pipeline_;
  PipelineState& at_;
  int first_row_;
  bool elected_;
  int low_ = 0, high_ = 0, middle_ = 0;  // stages
};

// Whether a thread's registers hold the sums and two sets of 64 k beside them. A watchdog takes some.
template <typename Kernel>
inline constexpr bool holds_three_sets = 3 * sizeof(typename Kernel::Sums) / sizeof(float) + (kWatchdog ? 48 : 0) <=
                                         (Kernel::config.takes_registers || Kernel::config.consumers == 1 ? 192 : 144);

template <typename Kernel>
__device__ __forceinline__ void add_pinned(const typename Kernel::Sums& more, typename Kernel::Sums& sums) {
  add<Kernel>(more, sums);
  pin<Kernel>(sums);
}

// While one set of sums is added, the tensor core works on the other.
template <typename Kernel, typename DuringLastProduct>
__device__ __forceinline__ void add_two_sets(Bf16x6Products<Kernel>& products, int blocks, typename Kernel::Sums& sums,
                                             const DuringLastProduct& during_last_product) {
  typename Kernel::Sums odd, even;
  clear<Kernel>(sums);
  products.begin(odd);
  products.finish(odd);
  int left = blocks - 1;
#pragma unroll 1
  for (; left >= 2; left -= 2) {
    products.go_on(even, odd);
    add_pinned<Kernel>(odd, sums);
    products.finish(even);
    products.go_on(odd, even);
    add_pinned<Kernel>(even, sums);
    products.finish(odd);
  }
  if (left == 1) {
    products.go_on(even, odd);
    add_pinned<Kernel>(odd, sums);
    products.finish(even);
    during_last_product();
    products.end(even);
    add_pinned<Kernel>(even, sums);
  } else {
    during_last_product();
    products.end(odd);
    add_pinned<Kernel>(odd, sums);
  }
}

// While the sums are added, the tensor core works for another consumer.
template <typename Kernel, typename DuringLastProduct>
__device__ __forceinline__ void add_one_set(Bf16x6Products<Kernel>& products, int blocks, typename Kernel::Sums& sums,
                                            const DuringLastProduct& during_last_product) {
  const auto multiply_one = [&](typename Kernel::Sums& k_sums) {
    products.begin(k_sums);
    products.finish(k_sums);
    products.end(k_sums);
  };
  multiply_one(sums);
#pragma unroll 1
  for (int block = 1; block < blocks; ++block) {
    typename Kernel::Sums k_sums;
    multiply_one(k_sums);
    add_pinned<Kernel>(k_sums, sums);
  }
  during_last_product();
}

// The MainLoop of float32 products.
template <typename Kernel>
struct Bf16x6MainLoop {
  // Sums `stages` stages from `at` on, which moves along: the sums of each 64 k leave the tensor core and are added in
  // float32. `during_last_product` is called towards the end.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int stages,
                                                  int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    Bf16x6Products<Kernel> products(pipeline, at, first_row);
    if constexpr (holds_three_sets<Kernel>) {
      add_two_sets<Kernel>(products, stages / kPlanes, sums, during_last_product);
    } else {
      add_one_set<Kernel>(products, stages / kPlanes, sums, during_last_product);
    }
  }
};

}  // namespace tileon::sm90
