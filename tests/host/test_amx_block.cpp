// Blocks by AMX's tile registers, emulated: on any processor, by its narrowest vectors.
#include "cpu/tiles/decode_exactly.cpp"
#include "cpu/tiles/variant.h"

#define TILEON_CPU_VARIANT emulated
#define TILEON_CPU_WIDTH 4
#include "cpu/tiles/amx_block.h"

#include "amx_block_checks.h"

int main() {
  expect(are_blocks_right(), "blocks");
  return report("amx_block");
}
