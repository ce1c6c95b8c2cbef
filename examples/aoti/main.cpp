// Runs a package of AOTInductor that uses torch.ops.tileon, without Python.
//
//   ./main <_C.so of tileon_ops> <package> <rows>
//
// The library registers its ops with torch as it is loaded; the package then finds them by name. x[i][j] is
// (3 i + 5 j) mod 7 - 3; the result is printed, one row a line.
#include <ATen/ops/empty.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

namespace {

constexpr int64_t kColumns = 8;

at::Tensor input(int64_t rows) {
  at::Tensor x = at::empty({rows, kColumns}, at::kFloat);
  float* values = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) values[i * kColumns + j] = static_cast<float>((3 * i + 5 * j) % 7 - 3);
  return x;
}

void print_rows(const at::Tensor& y) {
  const float* values = y.const_data_ptr<float>();
  for (int64_t i = 0; i < y.size(0); ++i) {
    for (int64_t j = 0; j < y.size(1); ++j) std::cout << (j == 0 ? "" : " ") << values[i * y.size(1) + j];
    std::cout << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: main <_C.so> <package> <rows>\n";
    return 2;
  }
  if (dlopen(argv[1], RTLD_NOW) == nullptr) {
    std::cerr << dlerror() << '\n';
    return 1;
  }
  try {
    torch::inductor::AOTIModelPackageLoader model(argv[2]);
    const at::Device device(model.get_metadata().at("AOTI_DEVICE_KEY"));
    const std::vector<at::Tensor> results = model.run({input(std::atoll(argv[3])).to(device)});
    print_rows(results.at(0).cpu().contiguous());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
