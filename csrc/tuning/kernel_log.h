// Which kernel ran: the answer for tests and benchmarks, and a line on stderr for whoever sets TILEON_LOG=1.
#pragma once

#include <string>

#include "core/elementwise_problems.h"
#include "core/problem.h"

namespace tileon {

// What else there is to say of a run.
struct RunNotes {
  bool copied_a = false;  // before the kernel read it
  bool copied_b = false;
  bool short_of_memory = false;  // the memory that a faster kernel needs did not fit
};

// Remembers, for this thread, what it ran. `kernel` must live forever.
void record_kernel(const char* kernel, const RunNotes& notes = {});

// "sm80_mma_128x128x32", "sm80_mma_128x128x32 (a copied)", "sm80_simt_128x128x8 (short of memory)"; "" before this
// thread's first op.
std::string last_kernel();

// TILEON_LOG=1, read once.
bool log_is_on();

// Where the log is on, one line about the call that was last recorded; free otherwise.
void log_call(const Problem& problem);
void log_call(const QuantizeProblem& problem);
void log_call(const DequantizeProblem& problem);
void log_call(const ScalePackProblem& problem);
void log_call(const EpilogueBackwardProblem& problem);

}  // namespace tileon
