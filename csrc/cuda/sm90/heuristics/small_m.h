// Few rows of a, times b^T, on Hopper: sizes, and what the kernels take. Data and pure functions, compiled by any C++
// compiler.
//
// b's rows are the rows of wgmma's first operand, decoded in registers; a's are its columns, decoded into shared
// memory or, where the weight alone has scales, put into the order of b's elements there. A CTA has 128 rows of b. Its
// pipeline's stages hold 128 bytes of each of them: two groups of four chunks of sixteen bytes. The CTAs of a cluster
// share k, and so do a CTA's consumers where there are four of them, taking stages in turn.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"

namespace tileon::sm90 {

constexpr int kSmallMTileN = 128;      // rows of b
constexpr int kSmallMLineBytes = 128;  // of one of them in a stage
constexpr int kChunksPerGroup = 4;     // what a consumer decodes at a time: a chunk for each thread of four
constexpr int kGroupsPerStage = kSmallMLineBytes / 16 / kChunksPerGroup;
constexpr int kDecoderWarps = 4;

// Warpgroups that multiply: as many as there are registers for.
constexpr int small_m_consumers(int tile_m) { return kSmallMTileN / 64 * (tile_m <= 32 ? kGroupsPerStage : 1); }
constexpr int small_m_parts(int tile_m) { return small_m_consumers(tile_m) / (kSmallMTileN / 64); }  // of k
constexpr int small_m_threads(int tile_m) {
  return small_m_consumers(tile_m) * 128 + kDecoderWarps * 32 + 32;  // and one producer warp
}

constexpr int kSmallMMaxTileM = 64;  // rows of a that a CTA takes, at most

// What a pair of formats decides.
struct SmallMFormat {
  DType a, b;
  ScaleType scale;

  static constexpr int bits(DType element) { return info(element).bytes * 8 / elements_per_byte(element); }
  constexpr bool is_weight_only() const { return bits(a) == 16; }
  // Which multiply sums, of all k or of a stage: no stage holds them.
  constexpr bool has_float32_scales() const { return scale == ScaleType::kFloat32; }
  constexpr bool is_mxfp4() const {
    return a == DType::kFloat4E2M1 && b == DType::kFloat4E2M1 && scale == ScaleType::kE8M0;
  }
  // Elements of b in sixteen bytes, with which as many of a go.
  constexpr int chunk() const { return 16 * 8 / bits(b); }
  constexpr int vec() const { return vec_of(scale); }
  constexpr int stage_k() const { return chunk() * kChunksPerGroup * kGroupsPerStage; }
  // Blocks of the packed layout (formats.h) in a stage: each holds four columns.
  constexpr int scale_blocks() const { return stage_k() / vec() / kScaleBlockCols; }
  // Bytes of one row of a in a stage.
  constexpr int line_bytes_a() const { return stage_k() * bits(a) / 8; }
  // Of them in a box of TMA, which swizzles no wider ones.
  constexpr int box_bytes_a() const { return is_weight_only() ? kLineBytes : line_bytes_a(); }
};

// How codes become elements.
enum class DecodedAs : int8_t {
  kE5M2,    // of mxfp4 (small_m/elements.cuh); a product that loses something is decoded anew in 16 bits
  k16Bits,  // elements.cuh
};

// The parts of a stage, in bytes from its start. The first two are 128-byte swizzled.
struct SmallMStage {
  int elements_a;  // a in 16 bits, or in 8; b's codes lie before
  int codes_a;     // of 16 bits: in the same place
  int scales_b, scales_a;
  int factors_b;  // of mxfp4: b's scales as float32
  int bytes;

  constexpr SmallMStage(const SmallMFormat& format, int tile_m)
      : elements_a(kSmallMTileN * kSmallMLineBytes),
        codes_a(elements_a + (format.is_weight_only() ? 0 : tile_m * format.stage_k() * kElementBytes)),
        scales_b(codes_a + tile_m * format.line_bytes_a()),
        scales_a(scales_b + format.scale_blocks() * kScaleBlockBytes),
        factors_b(scales_a + (format.is_weight_only() ? 0 : format.scale_blocks() * kScaleBlockBytes)),
        bytes((factors_b + (format.is_mxfp4() ? format.scale_blocks() * kScaleBlockBytes * 4 : 0) + 1023) / 1024 *
              1024) {}
};

// Sums in float32, those of each part of k by themselves: behind the pipeline or, of 64 rows, in its place.
constexpr int kSmallMPitch = kSmallMTileN + 4;
constexpr int small_m_staging_bytes(int tile_m) { return small_m_parts(tile_m) * tile_m * kSmallMPitch * 4; }
constexpr bool staging_lies_behind(int tile_m) { return small_m_parts(tile_m) > 1; }

// A pipeline that goes round has whole turns of the consumers, so that each of its stages is always the same ones': a
// wait that skipped a phase of a barrier would not notice.
constexpr int kSmallMMaxStages = 8;
constexpr int small_m_stages(const SmallMFormat& format, int tile_m) {
  const int room = kSmemLimit - kBarrierBytes - (staging_lies_behind(tile_m) ? small_m_staging_bytes(tile_m) : 0);
  const int parts = small_m_parts(tile_m);
  return std::min(room / SmallMStage(format, tile_m).bytes, kSmallMMaxStages) / parts * parts;
}

// The staging's place, in bytes from the pipeline's, and what both take.
constexpr int small_m_staging_begin(int tile_m, int pipeline_bytes) {
  return staging_lies_behind(tile_m) ? pipeline_bytes : 0;
}
constexpr int small_m_shared_bytes(const SmallMFormat& format, int tile_m, int stages) {
  const int pipeline_bytes = stages * SmallMStage(format, tile_m).bytes;
  return kBarrierBytes +
         std::max(pipeline_bytes, small_m_staging_begin(tile_m, pipeline_bytes) + small_m_staging_bytes(tile_m));
}

// ---- what the kernels take ----

inline SmallMFormat format_of(const Problem& problem) {
  return {problem.a.dtype, problem.b.dtype, problem.b.scale.type};
}

// Whether TMA can read rows of codes, or of elements of 16 bits.
inline bool tma_reads_codes(const Operand& operand, int64_t rows, int64_t k) {
  const int64_t columns = k / elements_per_byte(operand.dtype);
  const Matrix matrix{operand.data, operand.stride_mn, columns > 1 ? operand.stride_k : 1, 0};
  return tma_access(matrix, 1, rows, columns, info(operand.dtype).bytes).reads_along_k();
}

// Whether the scales come as whole blocks of 512 bytes, which can be copied as they are.
inline bool lie_in_blocks(const Scale& scale) {
  const ScaleStrides& strides = scale.strides;
  return is_packed(strides) && strides.col_block == kScaleBlockBytes && strides.row_block % 16 == 0 &&
         reinterpret_cast<uintptr_t>(scale.data) % 16 == 0;
}

// Of a product with block scales of which b alone has any: a is multiplied as it is, beside elements of `dtype`.
inline const char* why_not_weight_only(const Problem& problem, DType dtype) {
  if (problem.a.dtype != dtype) return "it does not take `a` of this dtype";
  return problem.b.scale.type == ScaleType::kFloat32 ? "it does not take float32 scales" : nullptr;
}

// A weight whose scales float16 does not hold all of.
inline bool is_float16_by_mxfp4(const Problem& problem) {
  return problem.a.dtype == DType::kFloat16 && problem.b.dtype == DType::kFloat4E2M1 &&
         problem.b.scale.type == ScaleType::kE8M0;
}

// Of a weight alone scaled.
inline const char* why_not_small_m_weight(const Problem& problem) {
  const Scale& scale = problem.b.scale;
  if (scale.type != ScaleType::kFloat32) {  // of which float16 holds every element of nvfp4 alone
    const bool is_float16 = problem.a.dtype == DType::kFloat16 && scale.type == ScaleType::kE4M3;
    return why_not_weight_only(problem, is_float16 ? DType::kFloat16 : DType::kBFloat16);
  }
  const bool takes_b = problem.b.dtype == DType::kFloat8E4M3 || problem.b.dtype == DType::kInt8;
  return takes_b ? nullptr : "it does not take `b` of this dtype";
}

inline const char* why_not_small_m(const Problem& problem, const Gpu& gpu) {
  const char* reason = problem.is_weight_only() ? why_not_small_m_weight(problem) : why_not_two_scaled(problem);
  if (reason != nullptr) return reason;
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  constexpr int64_t limit = (int64_t{1} << 31) - (1 << 16);  // of TMA's coordinates, with what tiles reach past the end
  if (problem.m >= limit || problem.n >= limit || problem.k >= limit) return "a size is near 2^31 or above it";
  if ((problem.m + 7) / 8 * ((problem.n + kSmallMTileN - 1) / kSmallMTileN) >= limit) return "there are too many tiles";
  return why_not_access(tma_reads_codes(problem.a, problem.m, problem.k),
                        tma_reads_codes(problem.b, problem.n, problem.k));
}

// What a CTA takes, in nanoseconds, on an H200: to start and to end, to share k with others, and for a stage.
constexpr double kSmallMStart = 5000.0;
constexpr double small_m_share(int splits) { return splits > 1 ? 1000.0 + 100.0 * splits : 0.0; }
constexpr double small_m_per_stage(int tile_m) { return 450.0 + 11.0 * tile_m; }

// Clusters of one CTA, of two and so on that run at once on 132 SMs, a CTA on each: as many as every GPC has room for
// (cudaOccupancyMaxActiveClusters on an H100). One tile more, and all tiles take twice the time.
constexpr int kSmallMClusters[] = {132, 66, 39, 30, 22, 17, 15, 15};
constexpr int kSmsOfClusters = 132;

inline int small_m_clusters(int ctas, int sm_count) {
  return std::max(kSmallMClusters[ctas - 1] * sm_count / kSmsOfClusters, 1);
}

// Tiles of the output, and stages of k.
struct SmallMWork {
  int64_t tiles;
  int stages;

  SmallMWork(const Problem& problem, int tile_m)
      : tiles(int64_t{ceil_divide(problem.m, tile_m)} * ceil_divide(problem.n, kSmallMTileN)),
        stages(ceil_divide(problem.k, format_of(problem).stage_k())) {}
};

// What they take by clusters of `splits` CTAs that share k, a stage each `per_stage` nanoseconds.
inline double small_m_ns(const SmallMWork& work, int splits, const Gpu& gpu, double start, double per_stage) {
  const int rounds = ceil_divide(work.tiles, small_m_clusters(splits, gpu.sm_count));
  return static_cast<double>(rounds) * (start + static_cast<double>((work.stages + splits - 1) / splits) * per_stage);
}

// How many CTAs share k so that they take least.
inline int small_m_splits(const SmallMWork& work, int tile_m, const Gpu& gpu) {
  constexpr int splits[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int best = cheapest(
      splits, [&](int count) { return count == 1 || count <= work.stages; },
      [&](int count) {
        return small_m_ns(work, count, gpu, kSmallMStart, small_m_per_stage(tile_m)) + small_m_share(count);
      });
  return splits[best];
}
inline int small_m_splits(const Problem& problem, int tile_m, const Gpu& gpu) {
  return small_m_splits(SmallMWork(problem, tile_m), tile_m, gpu);
}

// Up to so many rows, in two tiles, decoding b anew for each tile is faster than preparing it once.
constexpr int kMaxSmallM = 128;

// What a product of m rows takes by a tile, up to a factor.
inline double small_m_cost(int64_t m, int tile_m) {
  return static_cast<double>((m + tile_m - 1) / tile_m) * small_m_per_stage(tile_m);
}

}  // namespace tileon::sm90
