// Words of global memory by which the CTAs of a grid wait for each other: PTX ISA, "st.release", "ld.acquire".
#include "guarded.h"
#include "state.h"

namespace tileon::simulation {

namespace {

std::vector<Fiber*> waiting;  // for a store, to whichever word

void check(const void* word) {
  if (reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) != 0) fault("a word of 8 bytes that is not aligned");
  expect_waited_for_grid();
  expect_inside(word, sizeof(uint64_t));
}

}  // namespace

void forget_waiting_for_words() { waiting.clear(); }

// Left out, both are relaxed.

void store_release(uint64_t* word, uint64_t value, Site where) {
  const bool releases = enter("st.release", where);
  check(word);
  note(Access::kAtomic, word, sizeof value, where);
  if (releases) tell_grid(word);
  *word = value;
  wake_all(waiting);
}

uint64_t load_acquire(const uint64_t* word, Site where) {
  const bool acquires = enter("ld.acquire", where);
  check(word);
  Fiber& self = *current;
  if (self.loaded_word == word && self.loaded_value == *word) {
    waiting.push_back(&self);
    block();
  }
  note(Access::kAtomic, word, sizeof *word, where);
  if (acquires) hear_from_grid(word);
  self.loaded_word = word;
  return self.loaded_value = *word;
}

}  // namespace tileon::simulation
