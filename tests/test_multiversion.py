"""The CPU's quantizers in every version that this processor runs: the same bits, whatever the vectors' width."""

from __future__ import annotations

import pathlib
import platform
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILER = shutil.which("g++")
FLAGS = ("-O3", "-std=c++20", "-fno-trapping-math", "-Wall", "-Wextra", "-Werror")  # those of setup.py that matter

# Prints a checksum of what each format makes of numbers of all sizes, those that are not finite among them.
PROGRAM = r"""
#include <cstdio>
#include <random>
#include <vector>

#include "cpu/quantize_rows.h"

using namespace tileon;

int main() {
  constexpr int64_t kRows = 130, kColumns = 1152;
  std::mt19937 random(1);
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t block = static_cast<uint32_t>(i / 128 * 2654435761u);
    x[i] = std::ldexp(static_cast<float>(static_cast<int32_t>(random())), static_cast<int>(block % 200) - 130);
    if (block % 37 == 0 && random() % 40 == 0) x[i] = float_of(0x7f800000u | random() % 2 << 30 | random() % 2);
  }
  const float global = 0.0123f;
  for (const FormatInfo& format : kFormats)
    for (const ScaleRounding rounding : {ScaleRounding::kFloor, ScaleRounding::kRceil}) {
      std::vector<uint8_t> data(x.size()), scale(4 * x.size());
      QuantizeProblem problem;
      problem.rows = kRows, problem.k = problem.stride_row = kColumns, problem.stride_k = 1;
      problem.format = format.format, problem.rounding = rounding, problem.x = x.data();
      problem.data = data.data(), problem.scale = scale.data();
      if (format.format == Format::kNvfp4) problem.global_scale = &global;
      if (has_packed_scales(format.format)) {
        quantize_rows(problem, 0, kRows);
      } else if (format.rows == 0) {
        encode_rows(problem, float32_scale<DType::kInt8>(bits_of(1e20f)), 0, kRows);
        scale[0] = static_cast<uint8_t>(amax_bits_of_rows(problem, 0, kRows) >> 16);
      } else {
        quantize_blocks(problem, 0, problem.scale_rows() * problem.cols());
      }
      uint64_t sum = 1469598103934665603u;
      for (const auto* bytes : {&data, &scale})
        for (const uint8_t byte : *bytes) sum = (sum ^ byte) * 1099511628211u;
      std::printf("%s %016lx\n", format.name, static_cast<unsigned long>(sum));
    }
}
"""


def checksums(folder: pathlib.Path, *options: str) -> str:
    program, binary = folder / "program.cpp", folder / f"program{len(options)}{'_'.join(options)}"
    program.write_text("#include <cmath>\n" + PROGRAM)
    sources = (str(program), str(ROOT / "csrc" / "cpu" / "quantize_rows.cpp"))
    command = [str(COMPILER), *FLAGS, *options, f"-I{ROOT / 'csrc'}", *sources, "-o", str(binary)]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert compiled.returncode == 0, compiled.stderr
    return subprocess.run([str(binary)], capture_output=True, text=True, timeout=60, check=True).stdout


def processor_has(*flags: str) -> bool:
    path = pathlib.Path("/proc/cpuinfo")
    return path.exists() and set(flags) <= set(path.read_text().split())


@pytest.mark.skipif(COMPILER is None or platform.machine() != "x86_64", reason="versions are gcc's, of x86-64")
def test_every_version_gives_the_same_bits(tmp_path: pathlib.Path) -> None:
    """One version alone, for the instructions that it is told of; and all, of which the loader picks one."""
    alone = ("-DTILEON_MULTIVERSION=", "-ffp-contract=off")
    plain = checksums(tmp_path, *alone)
    assert len(set(plain.splitlines())) > 9
    assert checksums(tmp_path, "-ffp-contract=off") == plain
    for flags in (("avx2",), ("avx2", "fma"), ("avx512f",)):
        if processor_has(*flags):
            assert checksums(tmp_path, *alone, *(f"-m{flag}" for flag in flags)) == plain


def test_the_build_lets_no_product_and_sum_become_one() -> None:
    assert '"-ffp-contract=off"' in (ROOT / "setup.py").read_text()
