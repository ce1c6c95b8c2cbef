// The tile registers of AMX: eight of 16 rows of 64 bytes. Included after the pragma that lets the compiler use the
// instructions.
#pragma once

namespace tileon {
namespace TILEON_CPU_VARIANT {

constexpr int kSide = 16;       // rows of a register, and numbers of four bytes in a row
constexpr int kStepBytes = 64;  // of a row
constexpr int kRegisterBytes = kSide * kStepBytes;

#ifdef TILEON_CPU_AMX

// The instructions as text: compilers' intrinsics take literal numbers of registers alone, and some let memory be
// written behind the load that reads it.
struct TileRegisters {
  struct Shapes {
    uint8_t palette = 1, start_row = 0, unused[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };

  TileRegisters() {
    Shapes shapes;
    for (int i = 0; i < 8; ++i) shapes.row_bytes[i] = kStepBytes, shapes.rows[i] = kSide;
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  ~TileRegisters() { asm volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  template <int kRegister>
  void clear() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kRegister));
  }
  // Rows `stride` bytes apart.
  template <int kRegister>
  void load(const uint8_t* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kRegister) : "memory");
  }
  // What is not asked for again soon: it need not stay in the L1 cache.
  template <int kRegister>
  void load_once(const uint8_t* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kRegister) : "memory");
  }
  template <int kRegister>
  void store(uint8_t* to) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(int64_t{kStepBytes}), "i"(kRegister) : "memory");
  }
  // sums[i][j] += the sum over p of rows[i][p] * columns[p][j], p of the 16 numbers of four bytes: each two of
  // bfloat16, or four of int8, which are multiplied one by one.
  template <int kSums, int kRows, int kColumns>
  void add_products_of_bfloat16() {
    asm volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(kColumns), "i"(kRows), "i"(kSums));
  }
  template <int kSums, int kRows, int kColumns>
  void add_products_of_int8() {
    asm volatile("tdpbssd %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(kColumns), "i"(kRows), "i"(kSums));
  }
};

#else  // for tests on processors without the instructions: the same bits

class TileRegisters {
 public:
  template <int kRegister>
  void clear() {
    memset(registers_[kRegister], 0, kRegisterBytes);
  }
  template <int kRegister>
  void load(const uint8_t* from, int64_t stride) {
    for (int i = 0; i < kSide; ++i) memcpy(registers_[kRegister][i], from + i * stride, kStepBytes);
  }
  template <int kRegister>
  void load_once(const uint8_t* from, int64_t stride) {
    load<kRegister>(from, stride);
  }
  template <int kRegister>
  void store(uint8_t* to) {
    memcpy(to, registers_[kRegister], kRegisterBytes);
  }
  // Of the even and of the odd elements a sum each from 0, by fused multiply-adds; both added, then to the register's.
  template <int kSums, int kRows, int kColumns>
  void add_products_of_bfloat16() {
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        float even = 0, odd = 0;
        for (int p = 0; p < kSide; ++p) {
          const uint32_t x = registers_[kRows][i][p], y = registers_[kColumns][p][j];
          even = __builtin_fmaf(float_of(x << 16), float_of(y << 16), even);
          odd = __builtin_fmaf(float_of(x & 0xffff0000u), float_of(y & 0xffff0000u), odd);
        }
        uint32_t& sum = registers_[kSums][i][j];
        sum = bits_of(float_of(sum) + (even + odd));
      }
  }
  template <int kSums, int kRows, int kColumns>
  void add_products_of_int8() {
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j)
        for (int p = 0; p < kSide; ++p)
          for (int byte = 0; byte < 32; byte += 8) {
            const auto x = static_cast<int8_t>(registers_[kRows][i][p] >> byte);
            const auto y = static_cast<int8_t>(registers_[kColumns][p][j] >> byte);
            registers_[kSums][i][j] += static_cast<uint32_t>(x * y);
          }
  }

 private:
  uint32_t registers_[8][kSide][kSide] = {};
};

#endif

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
