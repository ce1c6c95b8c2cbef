// Memory of torch's: how it is asked for, and what a caller hears where it does not fit. The type of the error is
// Python's to give (tileon_ops/_rules/errors.py): what crosses torch's C interface is text.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/memory_text.h"

// torch has it from 2.13 on; before, the pointer is null, and torch itself writes the failure to stderr.
extern "C" [[gnu::weak]] const char* torch_exception_get_what_without_backtrace();

namespace tileon {

// What torch said of the last call that failed in this thread; "" where this torch does not tell.
inline std::string torchs_words() {
  if (torch_exception_get_what_without_backtrace == nullptr) return "";
  const char* words = torch_exception_get_what_without_backtrace();
  return words == nullptr ? "" : words;
}

constexpr int element_bytes(torch::headeronly::ScalarType type) {
  switch (type) {
    case torch::headeronly::ScalarType::Double:
      return 8;
    case torch::headeronly::ScalarType::Float:
      return 4;
    case torch::headeronly::ScalarType::Half:
    case torch::headeronly::ScalarType::BFloat16:
      return 2;
    default:
      return 1;  // codes, scales and bytes: the library makes no other tensors
  }
}

// A fresh contiguous tensor on the device of `like`; nothing where torch refuses, for want of memory above all.
inline std::optional<torch::stable::Tensor> try_allocate(const torch::stable::Tensor& like, const Shape& shape,
                                                         torch::headeronly::ScalarType type) {
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (int64_t i = shape.dims - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape.sizes[i] > 1 ? shape.sizes[i] : 1;  // torch's strides of contiguous tensors without elements
  }
  int32_t device_type = 0, device_index = 0;
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_get_device_type(like.get(), &device_type) != 0 ||
      aoti_torch_get_device_index(like.get(), &device_index) != 0 ||
      aoti_torch_empty_strided(shape.dims, shape.sizes, strides, static_cast<int32_t>(type), device_type, device_index,
                               &handle) != 0)
    return std::nullopt;
  return torch::stable::Tensor(handle);
}

// Ends the call after try_allocate has returned nothing: in torch's words, or in those that torch begins with.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail_to_allocate(const char* op, const torch::stable::Tensor& like,
                                                                    const Shape& shape,
                                                                    torch::headeronly::ScalarType type) {
  std::string words = torchs_words();
  if (words.empty()) {
    int32_t device_type = 0;
    aoti_torch_get_device_type(like.get(), &device_type);
    words = memory_text(op, shape, element_bytes(type), device_type == aoti_torch_device_type_cuda());
  }
  throw std::runtime_error(words);
}

inline torch::stable::Tensor allocate(const char* op, const torch::stable::Tensor& like, const Shape& shape,
                                      torch::headeronly::ScalarType type) {
  if (std::optional<torch::stable::Tensor> tensor = try_allocate(like, shape, type)) return *tensor;
  fail_to_allocate(op, like, shape, type);
}

// ---- torch's ops that may allocate ----

// torch::stable has them too, but writes torch's trace to stderr where they fail, and throws away what torch said.
template <size_t kArguments>
torch::stable::Tensor call_torch(const char* op, const char* overload, std::array<StableIValue, kArguments> stack) {
  if (torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION) == 0)
    return torch::stable::detail::to<torch::stable::Tensor>(stack[0]);
  const std::string words = torchs_words();
  throw std::runtime_error(words.empty() ? std::string(op) + " failed; " + kReasonIsOnStderr : words);
}

// In another dtype, laid out as before; the tensor itself where it has that dtype.
inline torch::stable::Tensor converted(const torch::stable::Tensor& tensor, torch::headeronly::ScalarType type) {
  using torch::stable::detail::from;
  const bool non_blocking = false, copy = false;
  return call_torch("aten::to", "dtype",
                    std::array{from(tensor), from(type), from(non_blocking), from(copy),
                               from(std::optional<torch::headeronly::MemoryFormat>())});
}

inline torch::stable::Tensor made_contiguous(const torch::stable::Tensor& tensor) {
  using torch::stable::detail::from;
  return call_torch("aten::contiguous", "",
                    std::array{from(tensor), from(torch::headeronly::MemoryFormat::Contiguous)});
}

inline torch::stable::Tensor reshaped(const torch::stable::Tensor& tensor,
                                      torch::headeronly::IntHeaderOnlyArrayRef sizes) {
  using torch::stable::detail::from;
  return call_torch("aten::reshape", "", std::array{from(tensor), from(sizes)});
}

}  // namespace tileon
