// Where the parts of a prepared weight lie, and that its length tells its form.
#include <cstdint>
#include <initializer_list>

#include "core/problem.h"
#include "expect.h"

namespace {

using tileon::PreparedForm;
using tileon::PreparedLayout;

void check_parts(PreparedForm form, int64_t rows, int64_t k) {
  const PreparedLayout place(form, rows, k);
  const int64_t width = form == PreparedForm::kInt8 ? 1 : 2;
  const int64_t begins[] = {0, place.exponents, place.word, place.bytes};
  const int64_t sizes[] = {rows * k * width, rows, static_cast<int64_t>(sizeof(uint32_t))};
  for (int i = 0; i < 3; ++i)
    expect(begins[i] % PreparedLayout::kAlignment == 0 && begins[i] + sizes[i] <= begins[i + 1],
           "parts lie apart, at multiples of 256");
  expect(place.bytes % PreparedLayout::kAlignment == 0, "so do buffers in a row");
  expect(place.bytes - rows * k * width - rows < 4 * PreparedLayout::kAlignment, "little else is in it");
}

}  // namespace

int main() {
  for (const int64_t rows :
       {int64_t{0}, int64_t{1}, int64_t{255}, int64_t{256}, int64_t{257}, int64_t{8192}, int64_t{1} << 20})
    for (const int64_t k :
         {int64_t{0}, int64_t{16}, int64_t{32}, int64_t{96}, int64_t{256}, int64_t{8192}, int64_t{1} << 30}) {
      check_parts(PreparedForm::kInt8, rows, k);
      check_parts(PreparedForm::kBFloat16, rows, k);
      expect(
          PreparedLayout(PreparedForm::kInt8, rows, k).bytes < PreparedLayout(PreparedForm::kBFloat16, rows, k).bytes,
          "no two forms are as long, of nothing neither");
    }
  // As tests/test_block_scaled_prepared.py has them.
  expect(PreparedLayout(PreparedForm::kInt8, 5, 64).bytes == 1024, "320, 5 and 4 bytes");
  expect(PreparedLayout(PreparedForm::kBFloat16, 5, 64).bytes == 1536, "640, 5 and 4 bytes");
  expect(PreparedLayout(PreparedForm::kInt8, 0, 64).bytes == 256, "a word");
  return report("prepared weight");
}
