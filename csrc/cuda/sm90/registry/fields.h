// What the private ops say of a config of these kernels.
#pragma once

#include <iterator>

#include "cuda/runtime/backend.h"
#include "cuda/sm90/heuristics/config.h"

namespace tileon::sm90 {

inline ConfigFields fields_of(const KernelConfig& config) {
  struct Names {
    const char* taken;
    const char* route;
  };
  constexpr const char* kFloat8 = "float8_e4m3fn,float8_e4m3fn*float8_e5m2,float8_e5m2*float8_e4m3fn,float8_e5m2";
  constexpr const char* kFormats = "mxfp8,mxfp4,mixed,nvfp4";
  constexpr const char* kE4M3Rows = "e4m3_row,e4m3_tensor";
  constexpr const char* kWeightBlocks =
      "bfloat16*e4m3_1x128,bfloat16*e4m3_128x128,float16*e4m3_1x128,float16*e4m3_128x128";
  constexpr const char* kFp4Weights =
      "bfloat16*mxfp4,bfloat16*nvfp4,float16*mxfp4,float16*nvfp4,mxfp4,mxfp8*mxfp4,nvfp4";
  constexpr const char* kDirectWeights =
      "bfloat16*mxfp4,bfloat16*nvfp4,float16*mxfp4,float16*nvfp4,bfloat16*mxfp8,"
      "bfloat16*e4m3_row,bfloat16*int8_row,float16*e4m3_row,float16*int8_row";
  // In the order of Operands, and of Family.
  constexpr Names kOperands[] = {{"float16,bfloat16", "plain"},
                                 {kFloat8, "fast"},
                                 {kFloat8, "promoted"},
                                 {"float32", "bf16x6"},
                                 {kFormats, "bfloat16"},
                                 {"mxfp4", "int8"},
                                 {"mxfp4", "float8"},
                                 {kFormats, "decoded"},
                                 {kE4M3Rows, "row_scales_fast"},
                                 {kE4M3Rows, "row_scales"},
                                 {"int8_row,int8_tensor", "row_scales"},
                                 {"e4m3_1x128*e4m3_128x128", "block_scales"},
                                 {kFp4Weights, "decoded"},
                                 {"tf32", "plain"},
                                 {"bfloat16*e4m3_row,bfloat16*int8_row,float16*e4m3_row,float16*int8_row", "decoded"},
                                 {"bfloat16*mxfp8,mxfp8,mxfp4*mxfp8", "decoded"},
                                 {kWeightBlocks, "decoded"},
                                 {"mxfp8,mxfp4*mxfp8", "folded"},
                                 {"mxfp4,mxfp8*mxfp4", "folded"},
                                 {kDirectWeights, "direct"}};
  constexpr const char* kFamilies[] = {"cooperative", "pingpong", "cluster_split_k", "swap_ab_split_k",
                                       "swap_ab",     "small_m",  "direct_weight"};
  static_assert(std::size(kOperands) == static_cast<int>(Operands::kDirectWeight) + 1);
  static_assert(std::size(kFamilies) == static_cast<int>(Family::kDirectWeight) + 1);
  const auto& [taken, route] = kOperands[static_cast<int>(config.operands)];
  const TileConfig& tile = config.tile;
  const char* family = config.streams ? "stream_k" : kFamilies[static_cast<int>(tile.family)];
  return {taken, "sm90", family, route, tile.tile_m, tile.tile_n, tile.block_k, config.splits, config.measured};
}

}  // namespace tileon::sm90
