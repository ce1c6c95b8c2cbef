// What a library built for the CPU alone says to CUDA tensors: what is wrong with the call, and else that it has no
// kernels for them.
#ifndef TILEON_WITH_CUDA

#include "entry/epilogue_backward.h"
#include "entry/layers.h"
#include "entry/products.h"
#include "entry/quantize.h"
#include "entry/quantized_linear.h"

namespace tileon {
namespace {

struct NoCuda {
  [[noreturn]] static void require(const char* op) {
    fail(op, ": this library was built for the CPU alone, got CUDA tensors; build it where nvcc is found ",
         "(see python -m tileon_ops.info)");
  }
  [[noreturn]] static void require_config(const char* op, int64_t) { require(op); }
  [[noreturn]] static void require_prepared(const char* op) { require(op); }
  static int index_of(const Tensor&) { return 0; }
  static bool takes_numbers(const Problem&, Format, int) { return false; }
  [[noreturn]] static Tensor prepare(const Problem&, PreparedForm, const Tensor&) { require("_prepare_block_scaled"); }

  template <typename... Arguments>
  static void run(const Arguments&...) {}  // `require` comes before
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CompositeExplicitAutograd, m) {
  m.impl("_multiplies_numbers", TORCH_BOX(&tileon::multiplies_numbers<tileon::NoCuda>));
}

TILEON_KERNELS(CUDA, m) {
  tileon::ProductEntries<tileon::NoCuda>::add_to(m);
  tileon::LayerEntries<tileon::NoCuda>::add_to(m);
  tileon::QuantizedLinearEntry<tileon::NoCuda, tileon::NoCuda>::add_to(m);
  tileon::QuantizeEntry<tileon::NoCuda>::add_to(m);
  tileon::EpilogueBackwardEntry<tileon::NoCuda>::add_to(m);
}

#endif  // TILEON_WITH_CUDA
