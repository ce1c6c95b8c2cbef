// What the lanes of a warp do together: the last one to come does it for all.
#include <algorithm>

#include "arithmetic.h"
#include "cut_sums.h"
#include "state.h"

namespace tileon::simulation {

namespace {

// Instructions that PTX marks .aligned must be the same one in all lanes; of the others only what they do.
enum class Kind { kAligned, kAnyPlace };

void meet(void* argument, Operation operation, Kind kind) {
  Fiber* self = current;
  Warp& warp = *self->warp;
  warp.arguments[self->lane] = argument;
  if (warp.arrived == 0) {
    warp.operation = operation;
    warp.operation_site = self->where;
  }
  if (warp.operation != operation || (kind == Kind::kAligned && !(warp.operation_site == self->where)))
    fault("lanes of a warp are at different instructions of the whole warp: others came from " +
          text_of(warp.operation_site));
  warp.arrived |= 1u << self->lane;
  if (warp.arrived != warp.alive) {
    block();
    return;
  }
  warp.arrived = 0;
  operation(warp);
  if (const uint32_t others = warp.alive & ~(1u << self->lane); others != 0) wake_lanes(warp, others);
  maybe_preempt_warp();
}

void expect_whole_warp() {
  if (current->warp->alive != 0xffffffffu) fault("an instruction of the whole warp, of which lanes have ended");
}

void expect_full_mask(uint32_t mask) {
  if (mask != 0xffffffffu) fault("a mask of some lanes of a warp, which is not simulated");
}

// For each lane that is there.
template <typename Argument, typename Use>
void for_each(Warp& warp, const Use& use) {
  for (uint32_t lanes = warp.alive; lanes != 0; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    use(*static_cast<Argument*>(warp.arguments[lane]), lane);
  }
}

}  // namespace

void sync_warp(uint32_t mask, Site where) {
  if (!enter("bar.warp.sync", where)) return;
  expect_full_mask(mask);
  publish_writes();
  meet(nullptr, synchronize_lanes, Kind::kAnyPlace);
}

// PTX ISA, "elect.sync": all lanes wait for each other, but nothing is said of their memory.
bool elect_one(Site where) {
  enter("elect.sync", where);
  meet(
      nullptr, [](Warp&) {}, Kind::kAnyPlace);
  return current->lane == current->warp->elected;
}

uint32_t reduce_or(uint32_t mask, uint32_t value, Site where) {
  enter("redux.sync", where);
  expect_full_mask(mask);
  meet(
      &value,
      [](Warp& warp) {
        uint32_t all = 0;
        for_each<uint32_t>(warp, [&](uint32_t& one, int) { all |= one; });
        for_each<uint32_t>(warp, [&](uint32_t& one, int) { one = all; });
      },
      Kind::kAnyPlace);
  return value;
}

uint32_t ballot(uint32_t mask, bool value, Site where) {
  enter("vote.sync", where);
  expect_full_mask(mask);
  uint32_t bits = value ? 1u << current->lane : 0;
  meet(
      &bits,
      [](Warp& warp) {
        uint32_t all = 0;
        for_each<uint32_t>(warp, [&](uint32_t& one, int) { all |= one; });
        for_each<uint32_t>(warp, [&](uint32_t& one, int) { one = all; });
      },
      Kind::kAnyPlace);
  return bits;
}

uint64_t shuffle(uint32_t mask, uint64_t value, int from, Site where) {
  enter("shfl.sync", where);
  expect_full_mask(mask);
  expect_whole_warp();
  struct Argument {
    uint64_t value, result;
    int from;
  } argument{value, 0, from};
  meet(
      &argument,
      [](Warp& warp) {
        for_each<Argument>(
            warp, [&](Argument& to, int) { to.result = static_cast<const Argument*>(warp.arguments[to.from])->value; });
      },
      Kind::kAnyPlace);
  return argument.result;
}

namespace {
void nothing(Warp&) {}
}  // namespace

// PTX ISA, "setmaxnreg": registers come out of the CTA's pool, or are waited for.
void set_registers(int count, bool more, Site where) {
  enter(more ? "setmaxnreg.inc" : "setmaxnreg.dec", where);
  expect_whole_warp();
  meet(nullptr, nothing, Kind::kAligned);
  Cta& cta = *current->cta;
  Warp& warp = *current->warp;
  if (current->lane != warp.elected) {
    meet(nullptr, nothing, Kind::kAligned);
    return;
  }
  const int wanted = (count - warp.registers) * 32;
  if (more ? wanted < 0 : wanted > 0)
    fault("setmaxnreg from " + std::to_string(warp.registers) + " to " + std::to_string(count) + " registers");
  while (wanted > cta.registers_free) {
    cta.at_registers.push_back(current);
    block();
  }
  cta.registers_free -= wanted;
  warp.registers = count;
  if (!more) wake_all(cta.at_registers);
  meet(nullptr, nothing, Kind::kAligned);
}

// PTX ISA, "ldmatrix" and "stmatrix". Element (row, column) of matrix j is half `column % 2` of register j of lane
// row * 4 + column / 2, and lies in the row whose address lane j * 8 + row gives. Transposed, the registers' rows and
// columns change places.

namespace {

struct MatrixArgument {
  unsigned char* place;
  uint32_t* registers;
  int count;
};

const MatrixArgument& matrix_of(const Warp& warp, int lane) {
  return *static_cast<const MatrixArgument*>(warp.arguments[lane]);
}

template <bool kLoad>
void move_rows(Warp& warp) {
  for (int j = 0; j < matrix_of(warp, 0).count; ++j) {
    for (int row = 0; row < 8; ++row) {
      unsigned char* place = matrix_of(warp, j * 8 + row).place;
      for (int pair = 0; pair < 4; ++pair) {
        uint32_t& in_register = matrix_of(warp, row * 4 + pair).registers[j];
        if (kLoad) {
          std::memcpy(&in_register, place + pair * 4, 4);
        } else {
          std::memcpy(place + pair * 4, &in_register, 4);
        }
      }
    }
  }
}

template <bool kLoad>
void move_columns(Warp& warp) {
  for (int j = 0; j < matrix_of(warp, 0).count; ++j) {
    for (int row = 0; row < 8; ++row) {
      unsigned char* place = matrix_of(warp, j * 8 + row).place;
      for (int column = 0; column < 8; ++column) {
        auto* half =
            reinterpret_cast<unsigned char*>(&matrix_of(warp, column * 4 + row / 2).registers[j]) + row % 2 * 2;
        if (kLoad) {
          std::memcpy(half, place + column * 2, 2);
        } else {
          std::memcpy(place + column * 2, half, 2);
        }
      }
    }
  }
}

}  // namespace

void load_matrices(uint32_t (&registers)[4], uint32_t address, bool transposed, Site where) {
  enter("ldmatrix", where);
  expect_whole_warp();
  if (address % 16 != 0) fault("ldmatrix of an address that is no multiple of 16");
  MatrixArgument argument{shared_of(*current->cta, address, 16), registers, 4};
  note(Access::kRead, argument.place, 16, where);
  meet(&argument, transposed ? move_columns<true> : move_rows<true>, Kind::kAligned);
}

void store_matrices(uint32_t address, const uint32_t* registers, int count, bool transposed, Site where) {
  enter("stmatrix", where);
  expect_whole_warp();
  MatrixArgument argument{nullptr, const_cast<uint32_t*>(registers), count};
  if (current->lane < count * 8) {
    if (address % 16 != 0) fault("stmatrix to an address that is no multiple of 16");
    argument.place = shared_of(*current->cta, address, 16);
    wrote_shared(address, 16);
    note(Access::kWrite, argument.place, 16, where);
  }
  meet(&argument, transposed ? move_columns<false> : move_rows<false>, Kind::kAligned);
}

// PTX ISA, "mma.sync": "Matrix Fragments for mma.m16n8k16" and its neighbours, all of which are one rule counted in
// bytes. Lane l gives a's rows l / 4 and l / 4 + 8 and b's column l / 4, of each 16 bytes of k those from 4 (l % 4) on;
// it holds d's columns 2 (l % 4) and 2 (l % 4) + 1 in the same rows.

namespace {

struct MmaArgument {
  float* d;
  const uint32_t* a;
  uint32_t b[2];
  Type a_type, b_type;
};

void multiply(Warp& warp) {
  alignas(64) unsigned char a_bytes[16][32], b_bytes[8][32];
  alignas(64) float a[16][32], b[8][32], columns[32][8], d[16][8];
  const auto of = [&warp](int lane) { return static_cast<const MmaArgument*>(warp.arguments[lane]); };
  for (int lane = 0; lane < 32; ++lane) {
    const MmaArgument& argument = *of(lane);
    for (int i = 0; i < 4; ++i)
      std::memcpy(&a_bytes[lane / 4 + i % 2 * 8][i / 2 * 16 + lane % 4 * 4], &argument.a[i], 4);
    for (int i = 0; i < 2; ++i) std::memcpy(&b_bytes[lane / 4][i * 16 + lane % 4 * 4], &argument.b[i], 4);
    for (int i = 0; i < 4; ++i) d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = argument.d[i];
  }
  const int count = 32 / bytes_of(of(0)->a_type);
  widen(of(0)->a_type, a_bytes[0], 16 * count, a[0]);
  widen(of(0)->b_type, b_bytes[0], 8 * count, b[0]);
  for (int n = 0; n < 8; ++n)
    for (int k = 0; k < count; ++k) columns[k][n] = b[0][n * count + k];
  if (sums_are_cut) {
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n)
        d[m][n] = cut_sum_of_mma(of(0)->a_type, a[0] + m * count, of(0)->b_type, b[0] + n * count, count, d[m][n]);
  } else {
    multiply_small(a[0], columns[0], count, d[0]);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) of(lane)->d[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  ++statistics.mmas;
}

struct MmaFloat64Argument {
  double* d;
  const double* a;
  double b;
};

void multiply_float64(Warp& warp) {
  const auto of = [&warp](int lane) { return static_cast<const MmaFloat64Argument*>(warp.arguments[lane]); };
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 4; ++k)
        of(lane)->d[i] += of(lane / 4 * 4 + k)->a[i / 2] * of((lane % 4 * 2 + i % 2) * 4 + k)->b;
  ++statistics.mmas;
}

}  // namespace

void mma(Type a_type, Type b_type, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Site where) {
  enter("mma.sync", where);
  expect_whole_warp();
  MmaArgument argument{d, a, {b0, b1}, a_type, b_type};
  meet(&argument, multiply, Kind::kAligned);
}

void mma_float64(double (&d)[4], const double (&a)[2], double b, Site where) {
  enter("mma.sync.f64", where);
  expect_whole_warp();
  MmaFloat64Argument argument{d, a, b};
  meet(&argument, multiply_float64, Kind::kAligned);
}

}  // namespace tileon::simulation
