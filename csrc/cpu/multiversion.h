// Functions that are compiled several times, for processors with wider and wider vectors; when the library is loaded,
// the version for this processor is picked. The bits of every version are the same: its loops do the same operations on
// more numbers at a time, and host code is compiled with -ffp-contract=off, so that none makes one rounding of two.
#pragma once

#include <cstdint>  // which says whether this is glibc: other C libraries have no such pick

#ifndef TILEON_MULTIVERSION  // a test has versions of its own (tests/test_multiversion.py)
// `flatten`: what such a function calls becomes part of it, and so is compiled for its vectors. clang refuses the two
// together.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __has_attribute(target_clones)
#define TILEON_MULTIVERSION __attribute__((flatten, target_clones("default", "avx2", "avx512f")))
#else
#define TILEON_MULTIVERSION __attribute__((flatten))
#endif
#endif
