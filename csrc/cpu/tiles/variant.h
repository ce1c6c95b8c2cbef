// What a version of the vector code includes before it lets the compiler use more instructions: what these headers
// define is compiled for any processor.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "core/fold.h"
#include "core/problem.h"
#include "core/small_floats.h"
#include "cpu/tiles/block.h"
