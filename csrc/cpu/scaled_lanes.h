// Vectors of the width that TILEON_CPU_WIDTH says, in floats, and what is done to 16 lanes of them. Included after the
// pragma that lets the compiler use the instructions.
#pragma once

namespace tileon {
namespace TILEON_CPU_VARIANT {

constexpr int kWidth = TILEON_CPU_WIDTH;
constexpr int kLanes = 16;
constexpr int kParts = kLanes / kWidth;           // vectors that hold the lanes
constexpr int kWordWidth = kWidth == 4 ? 8 : 16;  // words of 16 bits in a vector that holds them
constexpr int kWordParts = kLanes / kWordWidth;

typedef float FloatVec __attribute__((vector_size(4 * kWidth), may_alias));
typedef int32_t IntVec __attribute__((vector_size(4 * kWidth), may_alias));
typedef uint32_t BitsVec __attribute__((vector_size(4 * kWidth), may_alias));
typedef int16_t WordVec __attribute__((vector_size(2 * kWordWidth), may_alias));
typedef uint8_t ByteVec __attribute__((vector_size(kWordWidth), aligned(1), may_alias));
typedef uint8_t CodeVec __attribute__((vector_size(2 * kWordWidth), may_alias));
typedef BitsVec LooseBitsVec __attribute__((aligned(1), may_alias));
typedef WordVec LooseWordVec __attribute__((aligned(1), may_alias));
typedef float Floats4 __attribute__((vector_size(16), may_alias));
typedef int32_t Ints4 __attribute__((vector_size(16), may_alias));

struct Floats {
  FloatVec part[kParts];
};

struct Words {
  WordVec part[kWordParts];
};

// ---- memory ----

inline Words load_words(const uint8_t* from) {
  Words words;
  for (int p = 0; p < kWordParts; ++p)
    words.part[p] = *reinterpret_cast<const LooseWordVec*>(from + p * 2 * kWordWidth);
  return words;
}

inline Words load_bytes_as_words(const uint8_t* from) {
  Words words;
  for (int p = 0; p < kWordParts; ++p)
    words.part[p] = __builtin_convertvector(*reinterpret_cast<const ByteVec*>(from + p * kWordWidth), WordVec);
  return words;
}

inline void store(const Floats& floats, float* to) {
  for (int p = 0; p < kParts; ++p) *reinterpret_cast<FloatVec*>(to + p * kWidth) = floats.part[p];
}

// ---- bytes without their upper bits ----

inline void note_largest_bytes(const Words& words, Words& largest) {
  for (int p = 0; p < kWordParts; ++p) {
    const CodeVec magnitudes = (CodeVec)words.part[p] & 0x7f;
    const CodeVec so_far = (CodeVec)largest.part[p];
    largest.part[p] = (WordVec)(magnitudes > so_far ? magnitudes : so_far);
  }
}

inline bool has_byte(const Words& words, uint8_t byte) {
  uint64_t found = 0;
  for (int p = 0; p < kWordParts; ++p) {
    uint64_t eights[sizeof(WordVec) / 8];
    const auto is_byte = (CodeVec)words.part[p] == byte;
    memcpy(eights, &is_byte, sizeof(eights));
    for (const uint64_t eight : eights) found |= eight;
  }
  return found != 0;
}

// ---- arithmetic ----

#if defined(__x86_64__) && TILEON_CPU_WIDTH == 4
// One rounding, as of the processors that have the instruction: the product is exact in double, and its sum with c is
// made odd where it is not exact, so that rounding it to float32 cannot err.
inline float fused(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = c, sum = product + addend;
  const double part = sum - product, error = (product - (sum - part)) + (addend - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof(bits));
  if ((error < 0 || error > 0) && bits % 2 == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
  double odd;
  memcpy(&odd, &bits, sizeof(odd));
  return static_cast<float>(odd);
}
#endif

// a * b + c, rounded once.
inline FloatVec fused(const FloatVec& a, const FloatVec& b, const FloatVec& c) {
#if TILEON_CPU_WIDTH == 16
  return _mm512_fmadd_ps(a, b, c);
#elif TILEON_CPU_WIDTH == 8
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#elif defined(__x86_64__)
  FloatVec result;
  for (int i = 0; i < kWidth; ++i) result[i] = fused(a[i], b[i], c[i]);
  return result;
#else
  FloatVec result;
  for (int i = 0; i < kWidth; ++i) result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return result;
#endif
}

// c + the sums of products of two neighbours, words of 16 bits.
inline IntVec add_pairs(const IntVec& a, const IntVec& b, const IntVec& c) {
#if TILEON_CPU_WIDTH == 16
  return (IntVec)_mm512_add_epi32((__m512i)c, _mm512_madd_epi16((__m512i)a, (__m512i)b));
#elif TILEON_CPU_WIDTH == 8
  return (IntVec)_mm256_add_epi32((__m256i)c, _mm256_madd_epi16((__m256i)a, (__m256i)b));
#elif defined(__x86_64__)
  return (IntVec)_mm_add_epi32((__m128i)c, _mm_madd_epi16((__m128i)a, (__m128i)b));
#else
  const IntVec low = ((a << 16) >> 16) * ((b << 16) >> 16);
  return c + low + (a >> 16) * (b >> 16);
#endif
}

// ---- conversions ----

// IEEE halves as float32: exact, subnormal ones and infinities too.
inline Floats halves_to_floats(const Words& halves) {
  Floats floats;
#if TILEON_CPU_WIDTH == 16
  floats.part[0] = _mm512_maskz_cvtph_ps(0xffff, (__m256i)halves.part[0]);  // GCC 12 warns of the plain one
#elif TILEON_CPU_WIDTH == 8
  floats.part[0] = _mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)halves.part[0]));
  floats.part[1] = _mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)halves.part[0], 1));
#else
  uint32_t bits[kLanes];
  int16_t words[kLanes];
  memcpy(words, &halves, sizeof(words));
  for (int i = 0; i < kLanes; ++i) bits[i] = bits_of(float16_value(static_cast<uint16_t>(words[i])));
  memcpy(&floats, bits, sizeof(bits));
#endif
  return floats;
}

inline Floats words_to_floats(const Words& words) {
  Floats floats;
#if TILEON_CPU_WIDTH == 16
  floats.part[0] = __builtin_convertvector(__builtin_convertvector(words.part[0], IntVec), FloatVec);
#elif TILEON_CPU_WIDTH == 8
  const __m256i both = (__m256i)words.part[0];
  floats.part[0] = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(both)));
  floats.part[1] = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(both, 1)));
#else
  int16_t from[kLanes];
  float to[kLanes];
  memcpy(from, &words, sizeof(from));
  for (int i = 0; i < kLanes; ++i) to[i] = from[i];
  memcpy(&floats, to, sizeof(to));
#endif
  return floats;
}

// ---- sums of lanes: i with i + 8, i + 4, i + 2, i + 1 ----

// The first two levels: four numbers are left.
template <typename Quarter, typename Vec>
Quarter sum_to_four(const Vec (&lanes)[kParts]) {
  if constexpr (kParts == 4) {
    return (Quarter)((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
  } else if constexpr (kParts == 2) {
    const Vec eight = lanes[0] + lanes[1];
    return (Quarter)__builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
           (Quarter)__builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  } else {
    const auto low = __builtin_shufflevector(lanes[0], lanes[0], 0, 1, 2, 3, 4, 5, 6, 7);
    const auto high = __builtin_shufflevector(lanes[0], lanes[0], 8, 9, 10, 11, 12, 13, 14, 15);
    const auto eight = low + high;
    return (Quarter)__builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
           (Quarter)__builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  }
}

// The others, of four numbers at a time.
template <typename Quarter>
Quarter sum_quarters(const Quarter& x, const Quarter& y, const Quarter& z, const Quarter& w) {
  const Quarter low = __builtin_shufflevector(x, y, 0, 1, 4, 5) + __builtin_shufflevector(x, y, 2, 3, 6, 7);
  const Quarter high = __builtin_shufflevector(z, w, 0, 1, 4, 5) + __builtin_shufflevector(z, w, 2, 3, 6, 7);
  return __builtin_shufflevector(low, high, 0, 2, 4, 6) + __builtin_shufflevector(low, high, 1, 3, 5, 7);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
