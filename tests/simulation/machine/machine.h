// What a simulated CUDA thread can do: the instructions behind ptx/ and shim.h. A kernel's sources see this header
// alone.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "site.h"

// Of the thread that is running.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace tileon::simulation {

// Ends the launch; the text is told with the place of the thread that is running.
[[noreturn]] void fault(const std::string& what);

extern uint64_t fmaf_count;  // since the library was loaded

// Grids.

// A kernel with its parameters, which are copied: the grid may start after the launching function has returned.
struct Call {
  virtual ~Call() = default;
  virtual void run() const = 0;
  const void* kernel = nullptr;
};
template <typename... Params>
struct TypedCall final : Call {
  void (*function)(Params...);
  std::tuple<std::remove_cv_t<Params>...> params;

  TypedCall(void (*function_)(Params...), const std::remove_cv_t<Params>&... params_)
      : function(function_), params(params_...) {
    kernel = reinterpret_cast<const void*>(function_);
  }
  void run() const override { std::apply(function, params); }
};
cudaError_t check_and_enqueue(const cudaLaunchConfig_t& config, Call* call);  // takes `call` over

template <typename... Params>
cudaError_t launch(const cudaLaunchConfig_t& config, void (*kernel)(Params...),
                   const std::remove_cv_t<Params>&... params) {
  return check_and_enqueue(config, new TypedCall<Params...>(kernel, params...));
}

void wait_for_grid(Site where);
void launch_dependents(Site where);

// Shared memory, by its 32-bit addresses: 1024 bytes that the system has, then the dynamic memory, at its end what is
// static. Addresses of another CTA of the cluster have its rank + 1 from bit 24 on.
unsigned char* dynamic_shared(uint32_t alignment);
void* static_shared(const void* type, uint32_t bytes, uint32_t alignment);
uint32_t shared_address(const void* pointer);
const unsigned char* shared_for_load(uint32_t address, uint32_t bytes, uint32_t alignment, Site where);
unsigned char* shared_for_store(uint32_t address, uint32_t bytes, uint32_t alignment, Site where);
const unsigned char* cluster_for_load(uint32_t address, uint32_t bytes, uint32_t alignment, Site where);
uint32_t map_to_cta(uint32_t address, uint32_t rank);
void atomic_access(const void* address, uint32_t bytes);  // to any memory
void fence_proxy_async(Site where);
void fence_mbarrier_init(Site where);

template <typename T>
T load_shared(uint32_t address, Site where) {
  T value;
  std::memcpy(&value, shared_for_load(address, sizeof(T), sizeof(T), where), sizeof(T));
  return value;
}
template <typename T>
void store_shared(uint32_t address, const T& value, Site where) {
  std::memcpy(shared_for_store(address, sizeof(T), sizeof(T), where), &value, sizeof(T));
}
template <typename T>
T load_cluster(uint32_t address, Site where) {
  T value;
  std::memcpy(&value, cluster_for_load(address, sizeof(T), sizeof(T), where), sizeof(T));
  return value;
}

// Words of global memory by which CTAs of one grid tell each other what they have written. A load that finds what it
// found the time before waits for a store.
void store_release(uint64_t* word, uint64_t value, Site where);
uint64_t load_acquire(const uint64_t* word, Site where);

// Barriers.
int sync_threads_or(int value, Site where);
void sync_named(int id, int threads, Site where);
void arrive_named(int id, int threads, Site where);
void cluster_arrive(bool release, Site where);
void cluster_wait(Site where);
void mbarrier_init(uint32_t barrier, uint32_t arrivals, Site where);
void mbarrier_arrive(uint32_t barrier, Site where);
void mbarrier_arrive_cluster(uint32_t address, Site where);
void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes, Site where);
bool mbarrier_try_wait(uint32_t barrier, uint32_t parity, Site where);

// What a warp does together.
void sync_warp(uint32_t mask, Site where);
bool elect_one(Site where);
uint32_t reduce_or(uint32_t mask, uint32_t value, Site where);
uint32_t ballot(uint32_t mask, bool value, Site where);
uint64_t shuffle(uint32_t mask, uint64_t value, int from, Site where);
void set_registers(int count, bool more, Site where);
void load_matrices(uint32_t (&registers)[4], uint32_t address, bool transposed, Site where);
void store_matrices(uint32_t address, const uint32_t* registers, int count, bool transposed, Site where);

enum class Type : int8_t { kFloat16, kBFloat16, kTf32, kE4M3, kE5M2, kInt8 };
void mma(Type a_type, Type b_type, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Site where);
void mma_float64(double (&d)[4], const double (&a)[2], double b, Site where);

// Asynchronous copies.
void copy_async(uint32_t shared, const void* global, int bytes, int valid, Site where);
void commit_copies(Site where);
void wait_for_copies(int pending, Site where);
void load_box(uint32_t shared, const CUtensorMap& map, uint32_t barrier, const int* at, int dimensions, Site where);
void load_box_multicast(uint32_t shared, const CUtensorMap& map, uint32_t barrier, uint16_t ctas, const int* at,
                        int dimensions, Site where);
void load_bytes(uint32_t shared, const void* global, uint32_t barrier, int bytes, Site where);
void store_async(uint32_t address, const float (&values)[4], uint32_t barrier, Site where);
void store_box_by_warp(const CUtensorMap& map, uint32_t shared, const int* at, int dimensions, Site where);
void wait_for_store_reads(int pending, Site where);
void prefetch_tensor_map(const CUtensorMap& map, Site where);

// Asynchronous products of a warpgroup: 64 rows, 32 bytes of k.
struct Product {
  Type a_type, b_type;
  int columns;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  uint64_t a = 0, b = 0;               // descriptors
  const uint32_t* fragment = nullptr;  // four registers, where a does not lie in shared memory
};
void wgmma_fence(Site where);
void wgmma_commit(Site where);
void wgmma_wait(int pending, Site where);
void wgmma(uint32_t* sums, const Product& product, Site where);

}  // namespace tileon::simulation
