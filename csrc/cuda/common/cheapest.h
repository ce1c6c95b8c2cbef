// The choice from a tile table: a pure function, compiled by any C++ compiler.
#pragma once

namespace tileon {

// The index of the row of a table that is expected to be fastest; -1 where none may run. `ns(row)` is asked of rows for
// which `runs(row)` holds.
template <typename AnyRow, int kCount, typename Runs, typename Ns>
int cheapest(const AnyRow (&rows)[kCount], const Runs& runs, const Ns& ns) {
  int best = -1;
  double best_ns = 0;
  for (int i = 0; i < kCount; ++i) {
    if (!runs(rows[i])) continue;
    const double expected = ns(rows[i]);
    if (best < 0 || expected < best_ns) {
      best = i;
      best_ns = expected;
    }
  }
  return best;
}

}  // namespace tileon
