// How a product is run on a GPU: by which config, after which copies, with which memory. Written once for all products.
//
// A Product has
//
//   Arguments                              a call, of which its checks (checks/) make a Problem
//   kOp                                    the op's name
//   backends()                             its table of kernels
//   plan(problem, gpu)                     the Way that is expected to be fastest
//   plan_without_memory(problem, gpu)      the fastest of those that need no scratch
//   plan_of(config, problem)               the Way of a config that somebody else chose
//   can_measure(problem)                   whether the tuner's op states all of the problem
//   source(operand)                        the tensor that a copy is filled from, [.., mn, k] or [.., k, mn]
//   kMnDimOfA and B                        which dimension of that matrix is mn
#pragma once

#include <torch/csrc/stable/ops.h>

#include <optional>
#include <vector>

#include "cuda/dispatch/aligned_copy.h"
#include "cuda/dispatch/backends.h"
#include "cuda/dispatch/device.h"
#include "cuda/dispatch/memory.h"
#include "cuda/dispatch/tuned.h"
#include "tuning/kernel_log.h"

namespace tileon {

// A copy, and the dtype that its elements have for torch.
struct PlannedCopy {
  AlignedCopy layout;
  ScalarType dtype;
};

// A way of computing a product: a config, the problem as that config reads it, and what has to be there first.
struct Way {
  BackendConfig config;
  Problem problem;
  std::optional<PlannedCopy> a, b;

  MemoryNeeds needs() const {
    return {a ? a->layout.bytes() : 0, b ? b->layout.bytes() : 0, config.scratch_bytes(problem)};
  }
};

[[noreturn]] inline void fail_without_backend(const char* op, const Gpu& gpu) {
  fail(op, ": needs a GPU of compute capability 8.0 or newer, got ", gpu.capability / 10, ".", gpu.capability % 10);
}

template <typename Product>
BackendConfig choose_or_fail(const Problem& problem, const Gpu& gpu, bool has_scratch) {
  const BackendConfig config = Product::backends().choose(problem, gpu, has_scratch);
  if (config.backend == nullptr) fail_without_backend(Product::kOp, gpu);
  return config;
}

// Config `index` of the table, which must be able to run the problem.
template <typename Product>
BackendConfig config_by_index(int64_t index, const Problem& problem, const Gpu& gpu) {
  const auto found = Product::backends().at(index);
  if (!found)
    fail(Product::kOp, ": `config` must be below ", Product::backends().config_count(),
         ", the rows of the tile table here, got ", index);
  if (const char* reason = found->why_not(problem, gpu); reason != nullptr)
    fail(Product::kOp, ": `config` ", index, " (", found->name(), ", ", found->operands(),
         ") cannot run these operands: ", reason);
  return *found;
}

// By config `index` of the table where that is not negative, else by the config that was measured to be the fastest,
// where that is known and may be chosen, or that the library expects to be.
template <typename Product>
Way way_to_run(const Problem& problem, const typename Product::Arguments& arguments, int64_t index, int device,
               const Gpu& gpu, cudaStream_t stream) {
  if (index >= 0) return Product::plan_of(config_by_index<Product>(index, problem, gpu), problem);
  const bool can_measure = Product::can_measure(problem);
  if (const char* name = name_of_measured_row(problem, arguments, device, stream, can_measure); name != nullptr)
    if (const auto measured = Product::backends().candidate(name, problem, gpu))
      return Product::plan_of(*measured, problem);
  return Product::plan(problem, gpu);
}

// Fills a copy with the tensor, and makes it the operand; one matrix of a shared batch stands for all.
inline void fill(const PlannedCopy& copy, Tensor& memory, const Tensor& tensor, int mn_dim, Matrix& operand) {
  const int64_t dims = tensor.dim();
  const bool shared = dims == 3 && copy.layout.batch == 1 && tensor.size(0) > 1;
  const Tensor source = shared ? torch::stable::narrow(const_cast<Tensor&>(tensor), 0, 0, 1) : tensor;
  const Matrix place = copy.layout.at(memory.mutable_data_ptr());
  int64_t strides[3] = {copy.layout.outer() * copy.layout.pitch, 0, 0};
  strides[1 + mn_dim] = place.stride_mn;
  strides[2 - mn_dim] = place.stride_k;
  Tensor target =
      torch::stable::from_blob(memory.mutable_data_ptr(), source.sizes(),
                               {strides + 3 - dims, static_cast<size_t>(dims)}, tensor.device(), copy.dtype);
  torch::stable::copy_(target, source);
  operand = place;
}

// Runs a config, and behind it, where the data may need them, the portable kernels, which leave at once if not: the
// last ones of the table.
template <typename Product>
void run_config(const BackendConfig& config, const Problem& problem, const Gpu& gpu, void* scratch,
                cudaStream_t stream) {
  Problem again = problem;
  again.device_flag = config.backend->run(config.number, problem, gpu, scratch, stream);
  if (again.device_flag.words == nullptr) return;
  const Backend& portable = *Product::backends().all.back();
  portable.run(portable.choose_config(again, gpu), again, gpu, nullptr, stream);
}

// Runs config `index` of the table, or of the library's choice where it is negative, whose memory may not fit: then one
// that needs less. `problem` is complete.
template <typename Product>
void run_product(const Problem& problem, const typename Product::Arguments& arguments, int64_t index) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  const int device = arguments.a.get_device_index();
  const CurrentDevice current_device(device);
  const Gpu& gpu = gpu_of(Product::kOp, device);
  const cudaStream_t stream = current_stream(Product::kOp, device);
  Way way = way_to_run<Product>(problem, arguments, index, device, gpu, stream);
  Memory memory;
  bool short_of_memory = false;
  if (!way.needs().none()) {
    std::vector ways{way};
    if (index < 0) ways.push_back(Product::plan_without_memory(problem, gpu));
    const int chosen = fit(Product::kOp, ways, arguments.a, memory);
    way = ways[chosen];
    short_of_memory = chosen > 0;
  }
  if (way.a) fill(*way.a, *memory.copy_of_a, Product::source(arguments.a), Product::kMnDimOfA, way.problem.a);
  if (way.b) fill(*way.b, *memory.copy_of_b, Product::source(arguments.b), Product::kMnDimOfB, way.problem.b);
  run_config<Product>(way.config, way.problem, gpu, memory.scratch_pointer(), stream);
  record_kernel(way.config.name(), {way.a.has_value(), way.b.has_value(), short_of_memory});
  log_call(problem);
}

}  // namespace tileon
