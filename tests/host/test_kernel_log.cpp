// What last_kernel says of a run.
#include "tuning/kernel_log.cpp"

#include "expect.h"

using namespace tileon;

int main() {
  expect(last_kernel().empty(), "nothing before the first run");
  record_kernel("row");
  expect(last_kernel() == "row", "the kernel alone");
  record_kernel("row", {true, false, false});
  expect(last_kernel() == "row (a copied)", "a");
  record_kernel("row", {false, true, false});
  expect(last_kernel() == "row (b copied)", "b");
  record_kernel("row", {true, true, false});
  expect(last_kernel() == "row (a, b copied)", "both");
  record_kernel("row", {false, false, true});
  expect(last_kernel() == "row (short of memory)", "a kernel that stands in for one whose memory did not fit");
  record_kernel("row", {true, false, true});
  expect(last_kernel() == "row (a copied) (short of memory)", "which may copy itself");
  record_kernel("other");
  expect(last_kernel() == "other", "notes are of one run");
  return report("kernel log");
}
