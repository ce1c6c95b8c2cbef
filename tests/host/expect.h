// What the host tests report with: each failure a line, and their count as the exit status.
#pragma once

#include <cstdio>

inline int failures = 0;

inline void expect(bool holds, const char* what, const char* where = "") {
  if (holds) return;
  ++failures;
  std::printf("failed: %s %s\n", what, where);
}

// The last line of a program, and its status.
inline int report(const char* program) {
  std::printf("%s: %d failures\n", program, failures);
  return failures == 0 ? 0 : 1;
}
