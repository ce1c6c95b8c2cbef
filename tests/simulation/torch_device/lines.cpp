// What crossed_files.py calls around the one call whose lines it counts, in a build with gcov's counters.
#ifdef TILEON_COUNTS_LINES

extern "C" {

void __gcov_reset();  // of this library alone: libgcov is linked into it
void __gcov_dump();   // writes a .gcda beside each object, once

void simulation_begin_lines() { __gcov_reset(); }
void simulation_end_lines() { __gcov_dump(); }
}

#endif
