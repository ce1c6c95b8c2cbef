// How ops and kernels are registered with torch: by one library of a process.
//
// torch lets one library alone define the ops of a namespace. Its macros go on with the object that it refused to make,
// which ends the process, and by then kernels of the second library have taken the place of the first one's. Here a
// second library finds that out before it registers anything, says so, and leaves all as it is.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tileon {

// What has defined the ops, for as long as the library is loaded.
class DefinedOps {
 public:
  DefinedOps();
  DefinedOps(const DefinedOps&) = delete;
  DefinedOps& operator=(const DefinedOps&) = delete;
  ~DefinedOps();

  bool are_ours() const { return library_ != nullptr; }
  void def(const std::string& schema);
  // And the private op that compiled programs call.
  void def_with_compiled(const std::string& op, const std::string& signature);

 private:
  TorchLibraryHandle library_ = nullptr;  // null where another library of this process has defined them
};

void define_ops(DefinedOps& m);  // ops.cpp

// The private op that programs of torch's compiler call in place of one that has a kernel of Python's on the Autograd
// key: the same kernels, and none there (tileon_ops/_rules/inductor/compiled_ops.py).
inline std::string compiled_name(const std::string& op) { return (op.front() == '_' ? "" : "_") + op + "_compiled"; }

// Defines them at the first call. False where another library has.
bool ops_are_ours();

// The kernels of a file for one dispatch key, for as long as the library is loaded.
class RegisteredKernels {
 public:
  using Library = torch::stable::detail::StableLibrary;
  using Kernel = void (*)(StableIValue*, uint64_t, uint64_t);

  // The kernel of an op, and of the private one that compiled programs call.
  static void add_with_compiled(Library& m, const char* op, Kernel kernel) {
    m.impl(op, kernel);
    m.impl(compiled_name(op).c_str(), kernel);
  }

  RegisteredKernels(const char* key, void (*add_kernels)(Library&), const char* file, uint32_t line) {
    if (!ops_are_ours()) return;
    library_.emplace(Library::Kind::IMPL, "tileon", key, file, line);
    add_kernels(*library_);
  }

 private:
  std::optional<Library> library_;
};

}  // namespace tileon

// TILEON_KERNELS(CPU, m) { m.impl("op", TORCH_BOX(&kernel)); }, once in a file for each key.
#define TILEON_KERNELS(key, m)                                                                                \
  static void add_kernels_for_##key(tileon::RegisteredKernels::Library&);                                     \
  static const tileon::RegisteredKernels kernels_for_##key(#key, &add_kernels_for_##key, __FILE__, __LINE__); \
  static void add_kernels_for_##key(tileon::RegisteredKernels::Library& m)
