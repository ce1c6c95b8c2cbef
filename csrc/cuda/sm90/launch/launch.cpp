#include "cuda/sm90/launch/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cuda/common/kernel_choice.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm90/heuristics/select.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {
namespace {

// ---- TMA descriptors ----

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned version = 12000;  // of CUDA, whose form of the function this is
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, version, cudaEnableDefault, &found),
             "looking for cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr)
    throw std::runtime_error("tileon: this GPU driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
  return reinterpret_cast<Encode>(function);
}

// The driver wants a current context, and a thread that has not called CUDA's runtime yet has none: torch's thread for
// gradients, where a product is the first call and torch had the memory at hand.
void bind_context() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  check_cuda(cudaSetDevice(device), "making a device the current one");
}

}  // namespace

void encode_tensor_map(const void* data, CUtensorMapDataType type, const TensorBox& tensor, CUtensorMapSwizzle swizzle,
                       CUtensorMap& map) {
  static const Encode encode = find_encode();
  static constexpr uint32_t dense[4] = {1, 1, 1, 1};
  // The driver wants the map aligned to 64 bytes. `map` may be part of a returned value, whose place g++ 12 aligns less
  // than the value's type asks; not so a variable's member, which is copied there.
  struct {
    CUtensorMap map;
  } encoded;
  // L2 fetches the 128-byte lines that a box touches. Fetching 256 bytes would bring neighbours that a box of 128-byte
  // rows may never want: products of operands whose rows begin anywhere then take up to a sixth longer, and hardly any
  // less.
  const auto try_to_encode = [&] {
    return encode(&encoded.map, type, tensor.dimensions, const_cast<void*>(data), tensor.sizes, tensor.strides + 1,
                  tensor.box, dense, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = try_to_encode();
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    bind_context();
    result = try_to_encode();
  }
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("tileon: cuTensorMapEncodeTiled refused a tensor, CUresult " +
                             std::to_string(static_cast<int>(result)));
  map = encoded.map;
}

void map_codes(const Operand& operand, int64_t rows, const Problem& problem, int box_bytes, int box_rows,
               CUtensorMapSwizzle swizzle, CUtensorMap& map) {
  const auto columns = static_cast<uint64_t>(problem.k / elements_per_byte(operand.dtype));
  const int bytes = info(operand.dtype).bytes;
  const auto type = bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;  // or float16: alike
  const uint64_t stride = rows > 1 ? static_cast<uint64_t>(operand.stride_mn * bytes) : kTmaAlignment;
  // Where k is 0 nothing is read: any address will do.
  const void* valid = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(problem.out.data) / 16 * 16);
  const TensorBox tensor{4,
                         {std::max<uint64_t>(columns, 1), static_cast<uint64_t>(rows), 1, 1},
                         {0, columns == 0 ? kTmaAlignment : stride, kTmaAlignment, kTmaAlignment},
                         {static_cast<uint32_t>(box_bytes / bytes), static_cast<uint32_t>(box_rows), 1, 1}};
  encode_tensor_map(columns == 0 ? valid : operand.data, type, tensor, swizzle, map);
}

namespace {

// ---- a kernel's parameters ----

// Whether tiles along n begin at multiples of 128, where a float32 scale or a packed block of scales begins.
bool tiles_begin_at_scale_blocks(Operands operands) {
  return operands == Operands::kFp8Blocks || operands == Operands::kFp4Weight || operands == Operands::kMxfp8Weight;
}

// TMA rounds float32 to tf32 on its way to shared memory.
CUtensorMapDataType type_of(DType dtype) {
  if (dtype == DType::kFloat32) return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  return dtype == DType::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

// Boxes of `panels`, as load_operand (mainloop/kernel.cuh) asks for them: a tile's, or one of its `parts`' that CTAs
// load for each other. A tile's bytes are added to `loaded_bytes`.
void map_operand(const Operand& operand, const void* valid_address, const Problem& problem, int element_bytes,
                 int64_t mn, const TmaAccess& access, const TilePanels& tile, int parts, OperandMap& operand_map,
                 uint16_t& loaded_bytes, CUtensorMap& map) {
  const bool k_major = access.major == Major::kK;
  // Where k is 0 nothing is read: the producer stays outside the tensor, whatever it is.
  const uint64_t k = std::max<int64_t>(problem.k, 1);
  const auto panel = static_cast<uint32_t>(tile.panel);
  const uint64_t inner = k_major ? k : static_cast<uint64_t>(mn);
  const uint64_t outer = k_major ? static_cast<uint64_t>(mn) : k;
  const auto line = static_cast<uint64_t>(access.line_bytes);
  operand_map.shared = problem.batch == 1 || operand.stride_batch == 0 || problem.k == 0;
  const uint64_t matrices = operand_map.shared ? 1 : static_cast<uint64_t>(problem.batch);
  const uint64_t matrix = operand_map.shared ? line : static_cast<uint64_t>(operand.stride_batch * element_bytes);
  const TilePanels loaded = tile.loaded(access.major, mn);
  loaded_bytes = static_cast<uint16_t>(loaded_bytes + parts * loaded.bytes());
  // One box leaves no room between its panels.
  const bool one_box =
      parts == 1 && tile.panels > 1 && tile.tiles_begin_at_panels && inner % panel == 0 && loaded.lines == tile.lines;
  operand_map.panels = static_cast<int8_t>(one_box ? 0 : loaded.panels);
  const auto lines = static_cast<uint32_t>(loaded.lines), panels = static_cast<uint32_t>(loaded.panels);
  const TensorBox tensor{4,
                         {one_box ? panel : inner, outer, one_box ? inner / panel : 1, matrices},
                         {0, line, one_box ? kLineBytes : line, matrix},
                         {panel, lines, one_box ? panels : 1, 1}};
  const void* data = problem.k == 0 ? valid_address : operand.data;
  const CUtensorMapDataType type = element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : type_of(operand.dtype);
  encode_tensor_map(data, type, tensor, CU_TENSOR_MAP_SWIZZLE_128B, map);
}

EpilogueOp epilogue_op_of(const Problem& problem) {
  if (!is_cheap_epilogue(problem)) return EpilogueOp::kActivation;
  if (!has_epilogue(problem.epilogue)) return EpilogueOp::kNothing;
  return problem.epilogue.activation == Activation::kRelu ? EpilogueOp::kBiasAndRelu : EpilogueOp::kBiasAndLeakyRelu;
}

// Whether the kernel can finish the sums on their way to TMA, and TMA can write them.
bool takes_tma_store(Operands operands, const TileConfig& tile, const Problem& problem) {
  const bool finishes =
      epilogue_op_of(problem) != EpilogueOp::kActivation || takes_activated_store(operands, tile, problem);
  return persistent(tile) && finishes && writes_by_tma(operands, problem);
}

// And where TMA cannot, but the warps' lanes copy them.
bool takes_copied_store(Operands operands, const TileConfig& tile, const Problem& problem) {
  return has_copied_store(stored_sums(operands), tile) && epilogue_op_of(problem) != EpilogueOp::kActivation &&
         rounds_to_16_bits(operands, problem) && problem.out.stride_n == 1 && !writes_by_tma(operands, problem);
}

// Whether the kernel stores the sums from the registers (epilogue/direct_store.cuh).
bool takes_direct_store(Operands operands, const TileConfig& tile, const Problem& problem) {
  const bool stores_float32 = operands == Operands::kBf16x3 || operands == Operands::kTf32;
  return stores_float32 && persistent(tile) && epilogue_op_of(problem) != EpilogueOp::kActivation &&
         problem.out_dtype == DType::kFloat32 && problem.out.stride_n == 1;
}

// The output, or the activation's argument, in boxes of `columns` of wgmma's columns.
void map_output(const TileConfig& tile, int columns, const Problem& problem, void* data, CUtensorMap& map) {
  const auto stride = [](bool used, int64_t elements) -> uint64_t {
    return used ? static_cast<uint64_t>(elements) * kElementBytes : kTmaAlignment;
  };
  const auto box_columns = static_cast<uint32_t>(tile.swapped() ? kStoreRows : columns);
  const auto box_rows = static_cast<uint32_t>(tile.swapped() ? columns : kStoreRows);
  const TensorBox tensor{
      3,
      {static_cast<uint64_t>(problem.n), static_cast<uint64_t>(problem.m), static_cast<uint64_t>(problem.batch), 1},
      {0, stride(problem.m > 1, problem.out.stride_m), stride(problem.batch > 1, problem.out.stride_batch),
       kTmaAlignment},
      {box_columns, box_rows, 1, 1}};
  const auto swizzle = box_columns == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                       : box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                           : CU_TENSOR_MAP_SWIZZLE_NONE;
  encode_tensor_map(data, type_of(problem.out_dtype), tensor, swizzle, map);
}

// The counterpart of store_chunk (epilogue/tma_store.cuh): whole chunks, and what is left of a tile's columns.
void map_chunks(const TileConfig& tile, const Problem& problem, void* data, CUtensorMap& map, CUtensorMap& tail_map) {
  const int columns = tile.mma_columns(), tail = store_tail(columns);
  if (columns >= kStoreColumns) map_output(tile, kStoreColumns, problem, data, map);
  if (tail > 0) map_output(tile, tail, problem, data, tail_map);
  if (columns < kStoreColumns) map = tail_map;  // the kernel fetches this map early
}

}  // namespace

LaunchPlan plan_launch(Operands operands, const TileConfig& tile, int splits, const Problem& problem, const Gpu& gpu,
                       int sharing_ctas) {
  const int element_bytes = tile.element_bytes;
  LaunchPlan plan;
  KernelParams& params = plan.params;
  auto [a, b] = TmaAccesses(problem, element_bytes);
  if (tile.code_bits > 0) b = {true, Major::kK, 0};
  plan.major_a = a.major;
  plan.major_b = b.major;

  params.problem = kernel_problem(problem);
  const TileOrder order = tile_order(tile, problem.m, problem.n);
  params.order = FastTileOrder(order);
  params.tiles_per_batch = FastDivisor(static_cast<int>(order.count()));
  params.tiles = static_cast<int>(order.count() * problem.batch);
  params.k_blocks = ceil_divide(std::max<int64_t>(problem.k, 1), tile.block_k);
  params.k_begin = static_cast<uint16_t>(problem.k == 0 ? tile.block_k : 0);
  params.splits = splits;
  const int stages_of_k = operands == Operands::kBf16x3 ? kPlanes : 1;
  params.blocks_per_split = ceil_divide(params.k_blocks, splits * stages_of_k) * stages_of_k;

  // The output's address serves where an operand has none; aligned down, since it is never read.
  const void* valid = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(problem.out.data) / 16 * 16);
  const TilePanels tile_a = TilePanels(a.major, tile.tile_m, tile.block_k, element_bytes).part(tile.cluster_n);
  const TilePanels tile_b = TilePanels(b.major, tile.tile_n, tile.block_k, element_bytes).part(tile.cluster_m);
  params.loaded_bytes = 0;
  map_operand(problem.a, valid, problem, element_bytes, problem.m, a, tile_a, tile.cluster_n, params.a,
              params.loaded_bytes, params.map_a);
  if (tile.code_bits > 0) {
    const int line = tile.block_k * tile.code_bits / 8;
    const auto swizzle = line == 32   ? CU_TENSOR_MAP_SWIZZLE_32B
                         : line == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                      : CU_TENSOR_MAP_SWIZZLE_128B;
    map_codes(problem.b, problem.n, problem, line, tile.tile_n, swizzle, params.map_b);
    params.loaded_bytes = static_cast<uint16_t>(
        params.loaded_bytes + codes_bytes(tile.code_bits, tile.tile_n, tile.block_k) + scale_words_bytes(tile));
  } else {
    map_operand(problem.b, valid, problem, element_bytes, problem.n, b, tile_b, tile.cluster_m, params.b,
                params.loaded_bytes, params.map_b);
  }
  // Where tiles are shared none overlap: two might add the same sums in different orders.
  const bool has_clustered_tiles = persistent(tile) && splits > 1;
  const int64_t k_bytes = sharing_ctas > 0 || has_clustered_tiles ? 0 : problem.k * element_bytes;
  params.last_m_begin = last_begin(problem.m, tile.tile_m * tile.cluster_m, order.tiles_m, k_bytes, a.major, 8);
  params.last_n_begin = last_begin(problem.n, tile.tile_n * tile.cluster_n, order.tiles_n, k_bytes, b.major,
                                   tiles_begin_at_scale_blocks(operands) ? kFloat32ScaleBlock : 16);
  params.store_by_tma = takes_tma_store(operands, tile, problem);
  params.store_by_copies = takes_copied_store(operands, tile, problem);
  params.store_directly = takes_direct_store(operands, tile, problem);
  const bool finishes_cheaply = params.store_by_tma || params.store_by_copies || params.store_directly;
  params.epilogue_op = finishes_cheaply                                 ? epilogue_op_of(problem)
                       : takes_activated_store(operands, tile, problem) ? EpilogueOp::kActivation
                                                                        : EpilogueOp::kNothing;
  params.slope = problem.epilogue.activation == Activation::kNone ? 1.0f : static_cast<float>(problem.epilogue.slope);
  if (params.store_by_tma) {
    map_chunks(tile, problem, problem.out.data, params.map_out, params.map_out_tail);
    if (problem.pre_activation != nullptr)
      map_chunks(tile, problem, problem.pre_activation, params.map_pre_activation, params.map_pre_activation_tail);
  }
  params.vector_stores = takes_vector_stores(problem, params.store_directly ? 2 : 4);

  const int clusters = sharing_ctas > 0   ? sharing_ctas
                       : persistent(tile) ? std::min(params.tiles, clusters_at_once(tile.cluster_ctas(), gpu.sm_count))
                                          : params.tiles;
  const int64_t tiles_per_cta = ceil_divide(params.tiles, clusters);
  // A deeper pipeline than the work of a CTA would only take time to set up.
  const int64_t blocks_per_cta = tiles_per_cta * params.blocks_per_split;
  const int buffers = store_buffers(tile), stages = pipeline_stages(tile, buffers, a.major, b.major);
  params.stages = static_cast<int>(std::min<int64_t>(stages, blocks_per_cta));
  plan.clusters = clusters;
  plan.cluster_ctas = splits * tile.cluster_ctas();
  plan.shared_bytes = shared_bytes(tile, buffers, a.major, b.major, params.stages);
  if (has_clustered_tiles)
    plan.shared_bytes = std::max(plan.shared_bytes, pipeline_begin(tile, buffers) + received_bytes(tile, splits));
  return plan;
}

}  // namespace tileon::sm90
