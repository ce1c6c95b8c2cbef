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
typedef double DoubleVec __attribute__((vector_size(4 * kWidth), may_alias));
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

// ---- bits ----

inline Words shifted(const Words& words, int left, int right, int mask) {
  Words result;
  for (int p = 0; p < kWordParts; ++p)
    result.part[p] =
        (words.part[p] << static_cast<int16_t>(left) >> static_cast<int16_t>(right)) & static_cast<int16_t>(mask);
  return result;
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

// As many halves as a vector has floats.
template <typename HalfVec>
FloatVec narrow_halves_to_floats(const HalfVec& halves) {
#if TILEON_CPU_WIDTH == 16
  return _mm512_maskz_cvtph_ps(0xffff, (__m256i)halves);
#elif TILEON_CPU_WIDTH == 8
  return _mm256_cvtph_ps((__m128i)halves);
#else
  FloatVec floats;
  for (int i = 0; i < kWidth; ++i) floats[i] = float16_value(halves[i]);
  return floats;
#endif
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

// a * b + c, rounded once, of float64.
inline DoubleVec fused(const DoubleVec& a, const DoubleVec& b, const DoubleVec& c) {
#if TILEON_CPU_WIDTH == 16
  return _mm512_fmadd_pd(a, b, c);
#elif TILEON_CPU_WIDTH == 8
  return _mm256_fmadd_pd(a, b, c);
#else
  DoubleVec result;
  for (int i = 0; i < kWidth / 2; ++i) result[i] = __builtin_fma(a[i], b[i], c[i]);
  return result;
#endif
}

// ---- sums of lanes: i with i + 8, i + 4, i + 2, i + 1 ----

#if TILEON_CPU_WIDTH == 16

// The lanes of each of four vectors added up. Two vectors share one as soon as half of the lanes are left.
template <typename Quarter, typename Vec>
Quarter sum_lanes(const Vec& x, const Vec& y, const Vec& z, const Vec& w) {
#define TILEON_HALVES(u, v)                                                                \
  (__builtin_shufflevector(u, v, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + \
   __builtin_shufflevector(u, v, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
  const Vec xy = TILEON_HALVES(x, y), zw = TILEON_HALVES(z, w);
#undef TILEON_HALVES
  const Vec four = __builtin_shufflevector(xy, zw, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
                   __builtin_shufflevector(xy, zw, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const Vec two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  const Vec one = two + __builtin_shufflevector(two, two, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  return __builtin_shufflevector(one, one, 0, 4, 8, 12);
}

template <typename Quarter, typename Vec>
Quarter sum_lanes(const Vec (&x)[kParts], const Vec (&y)[kParts], const Vec (&z)[kParts], const Vec (&w)[kParts]) {
  return sum_lanes<Quarter>(x[0], y[0], z[0], w[0]);
}

#else

// The first two levels: four numbers are left.
template <typename Quarter, typename Vec>
Quarter sum_to_four(const Vec (&lanes)[kParts]) {
  if constexpr (kParts == 4) {
    return (Quarter)((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
  } else {
    const Vec eight = lanes[0] + lanes[1];
    return (Quarter)__builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
           (Quarter)__builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  }
}

template <typename Quarter, typename Vec>
Quarter sum_lanes(const Vec (&x)[kParts], const Vec (&y)[kParts], const Vec (&z)[kParts], const Vec (&w)[kParts]) {
  const Quarter a = sum_to_four<Quarter>(x), b = sum_to_four<Quarter>(y);
  const Quarter c = sum_to_four<Quarter>(z), d = sum_to_four<Quarter>(w);
  const Quarter low = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  const Quarter high = __builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7);
  return __builtin_shufflevector(low, high, 0, 2, 4, 6) + __builtin_shufflevector(low, high, 1, 3, 5, 7);
}

#endif

// Of float64: 8 lanes, i with i + 4, i + 2, i + 1.
inline double sum_lanes(const DoubleVec (&lanes)[kParts]) {
  double of[8];
  memcpy(of, lanes, sizeof(of));
  return ((of[0] + of[4]) + (of[2] + of[6])) + ((of[1] + of[5]) + (of[3] + of[7]));
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
