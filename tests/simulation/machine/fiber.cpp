#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#if defined(__x86_64__)

// The registers that a called function must keep (System V ABI, "Register Usage"), then the other stack.
asm(R"(
        .text
        .globl tileon_simulation_switch
        .hidden tileon_simulation_switch
        .type tileon_simulation_switch, @function
tileon_simulation_switch:
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq %rsi, %rsp
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        ret
)");

#elif defined(__aarch64__)

// The same by AAPCS64: x19 to x30, and the low halves of v8 to v15.
asm(R"(
        .text
        .globl tileon_simulation_switch
        .hidden tileon_simulation_switch
        .type tileon_simulation_switch, %function
tileon_simulation_switch:
        sub sp, sp, #160
        stp x19, x20, [sp, #0]
        stp x21, x22, [sp, #16]
        stp x23, x24, [sp, #32]
        stp x25, x26, [sp, #48]
        stp x27, x28, [sp, #64]
        stp x29, x30, [sp, #80]
        stp d8, d9, [sp, #96]
        stp d10, d11, [sp, #112]
        stp d12, d13, [sp, #128]
        stp d14, d15, [sp, #144]
        mov x9, sp
        str x9, [x0]
        mov sp, x1
        ldp x19, x20, [sp, #0]
        ldp x21, x22, [sp, #16]
        ldp x23, x24, [sp, #32]
        ldp x25, x26, [sp, #48]
        ldp x27, x28, [sp, #64]
        ldp x29, x30, [sp, #80]
        ldp d8, d9, [sp, #96]
        ldp d10, d11, [sp, #112]
        ldp d12, d13, [sp, #128]
        ldp d14, d15, [sp, #144]
        add sp, sp, #160
        ret
)");

#endif

#ifndef SIMULATION_UCONTEXT
extern "C" void tileon_simulation_switch(void** save, void* load);
#endif

namespace tileon::simulation {

void prepare_context(Context& context, unsigned char* stack, size_t bytes, size_t unused, void (*entry)()) {
#if defined(SIMULATION_UCONTEXT)
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack;
  context.state.uc_stack.ss_size = bytes - unused;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
#elif defined(__x86_64__)
  auto** words = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + bytes - unused) / 64 * 64);
  *--words = nullptr;  // where `entry` would return to: at its start the stack is 8 below a multiple of 16
  *--words = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--words = nullptr;
  context.stack_pointer = words;
#else
  auto** words = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + bytes - unused) / 64 * 64) - 20;
  for (int i = 0; i < 20; ++i) words[i] = nullptr;
  words[11] = reinterpret_cast<void*>(entry);  // x30
  context.stack_pointer = words;
#endif
}

void switch_context(Context& from, Context& to) {
#ifdef SIMULATION_UCONTEXT
  swapcontext(&from.state, &to.state);
#else
  tileon_simulation_switch(&from.stack_pointer, to.stack_pointer);
#endif
}

namespace {
std::vector<unsigned char*> free_stacks;
}

unsigned char* take_stack() {
  if (free_stacks.empty()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory =
        mmap(nullptr, page + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    mprotect(memory, page, PROT_NONE);
    return static_cast<unsigned char*>(memory) + page;
  }
  unsigned char* stack = free_stacks.back();
  free_stacks.pop_back();
  return stack;
}

void give_stack_back(unsigned char* stack) { free_stacks.push_back(stack); }

}  // namespace tileon::simulation
