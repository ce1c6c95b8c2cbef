#include "entry/registration.h"

#include <dlfcn.h>

namespace tileon {
namespace {

// By torch's own way to warn: where this runs, under dlopen, an exception would end the process.
void warn_of_other_library() {
  Dl_info here = {};
  const bool is_known = dladdr(reinterpret_cast<const void*>(&ops_are_ours), &here) != 0 && here.dli_fname != nullptr;
  const std::string text = std::string("tileon_ops: another library has registered the ops in this process, so ") +
                           (is_known ? here.dli_fname : "this one") +
                           " registers nothing, and they stay the other one's. Load one alone.";
  aoti_torch_warn(__func__, __FILE__, __LINE__, text.c_str());
}

}  // namespace

DefinedOps::DefinedOps() {
  if (aoti_torch_library_init_def("tileon", __FILE__, __LINE__, &library_) != 0) {
    library_ = nullptr;
    warn_of_other_library();
  } else {
    define_ops(*this);
  }
}

DefinedOps::~DefinedOps() {
  if (are_ours()) aoti_torch_delete_library_object(library_);
}

void DefinedOps::def(const std::string& schema) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_library_def(library_, schema.c_str()));
}

void DefinedOps::def_with_compiled(const std::string& op, const std::string& signature) {
  def(op + signature);
  def(compiled_name(op) + signature);
}

bool ops_are_ours() {
  static const DefinedOps ops;  // made by whichever file registers its kernels first, and so outlives them all
  return ops.are_ours();
}

}  // namespace tileon
