// A stack of its own and a switch to it: what a simulated CUDA thread runs on.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define SIMULATION_UCONTEXT  // a compiler's option elsewhere, to test it there
#endif
#ifdef SIMULATION_UCONTEXT
#include <ucontext.h>
#endif

namespace tileon::simulation {

// Where a fiber stopped.
struct Context {
#ifdef SIMULATION_UCONTEXT
  ucontext_t state;
#else
  void* stack_pointer = nullptr;
#endif
};

// `entry` runs on the stack when the context is switched to for the first time, and never returns. The first
// `unused` bytes from the stack's top stay free.
void prepare_context(Context& context, unsigned char* stack, size_t bytes, size_t unused, void (*entry)());

// Returns when somebody switches back to `from`.
void switch_context(Context& from, Context& to);

// Stacks are kept for the next fibers; below each lies a page that cannot be touched.
constexpr size_t kStackBytes = 128 * 1024;
unsigned char* take_stack();
void give_stack_back(unsigned char* stack);

}  // namespace tileon::simulation
