"""What the compiler made of the kernels: the instructions that must be there, and none that must not."""

from __future__ import annotations

import itertools
import re

import pytest
from sass_images import ADA, HOPPER, OPCODE, PORTABLE, cuobjdump, images, instructions, opcodes

from tileon_ops._rules.configs import Config, block_scaled, dense

# The family of a config, as its enumerator appears in a mangled name: heuristics/config.h of each architecture.
MMA, GATHER, WIDENED, SIMT, DMMA, SKINNY, DECODED, DIRECT, NARROW = map(str, range(9))
COOPERATIVE, PING_PONG, SPLIT_K, SWAP_AB_SPLIT_K, SWAP_AB = "0", "1", "2", "3", "4"
PORTABLE_FAMILIES = ("mma", "mma_gather", "mma_widened", "simt", "dmma", "skinny", "decoded", "direct", "narrow")
HOPPER_FAMILIES = ("cooperative", "pingpong", "cluster_split_k", "swap_ab_split_k", "swap_ab")
FAMILIES = {name: str(i) for names in (PORTABLE_FAMILIES, HOPPER_FAMILIES) for i, name in enumerate(names)}
DTYPE_IN_NAME = {
    "float16": "6__half",
    "bfloat16": "13__nv_bfloat16",
    "tf32": "f",
    "float32": "f",
    "float64": "d",
    "float8_e4m3fn": "13__nv_fp8_e4m3",
    "float8_e5m2": "13__nv_fp8_e5m2",
}
# Hopper's other kernels. Of block-scaled products: those that classify the scales, those that prepare operands, those
# that multiply prepared ones (in the encoding that the data decide; as bfloat16), those for a small m. Of fp8: those
# that multiply. Of float32: those that split it, and those that multiply its parts.
CLASSIFIES, PREPARES, BY_ENCODING = "classify_scales", "prepare_", "gemm_by_encoding"
SCALED, FLOAT8, FACTORS, WEIGHT = "11GlobalScale", "6Float8", "11FactorScale", "Fp4WeightMainLoop"
FOLDED, DIRECT_WEIGHT = "FoldedWeightMainLoop", "DirectWeightTypes"
SPLITS, BF16X3, SMALL_M = "split_float32", "6Bf16x3", "block_scaled_small_m"
BLOCK_SCALED, STREAMED = "BlockScaledMainLoop", "UnscaledShared"
TF32, WEIGHT_ROWS, WEIGHT_BLOCKS, WEIGHT_MXFP8 = "4Tf32", "WeightRowScale", "WeightBlockScale", "Mxfp8WeightMainLoop"
# Of the last one: the tile's rows, the elements of a and b (DType) and the scales (0: e8m0, 1: e4m3, 2: float32).
SCALED_TYPES = re.compile(r"11SmallMTypesILi(\d+)ELNS_5DTypeE(\d)ELS\w+_(\d)ELNS_9ScaleTypeE(\d)E")
FP8_FORMATS = {"float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}  # in instructions

ROWS = dense()
PORTABLE_ROWS = [row for row in ROWS if row.backend == "sm80"]
HOPPER_ROWS = [row for row in ROWS if row.backend == "sm90"]


def kernels(image: str) -> dict[str, str]:
    return images().get(image, {})


def dense_kernels() -> dict[str, str]:
    """Hopper's kernels of 16-bit products."""
    others = (CLASSIFIES, PREPARES, BY_ENCODING, SCALED, SMALL_M, FLOAT8, SPLITS, BF16X3, FACTORS, WEIGHT, TF32)
    others += (WEIGHT_ROWS, WEIGHT_BLOCKS, WEIGHT_MXFP8, DIRECT_WEIGHT)
    return {name: body for name, body in kernels(HOPPER).items() if not any(word in name for word in others)}


def family(name: str) -> str | None:
    match = re.search(r"6FamilyE(\d)E", name)
    return match[1] if match else None


def is_for(name: str, kind: str) -> bool:
    """Whether a tensor-core kernel multiplies operands of this kind: one dtype, or a's and b's with a * between."""
    if family(name) == WIDENED:
        return True  # one kernel for all
    if kind.startswith("float8") and family(name) in (GATHER, DIRECT):
        return "AnyFloat8" in name  # one kernel for all
    first, _, second = kind.partition("*")
    if first.startswith("float8"):
        named = re.findall("__nv_fp8_e.m.", name)
        return {DTYPE_IN_NAME[first], DTYPE_IN_NAME[second or first]} == {f"13{word}" for word in named} and (
            named[0] in DTYPE_IN_NAME[first]
        )
    return DTYPE_IN_NAME[kind] in name


def of_row(image: str, row: Config) -> list[str]:
    """The kernels of a row: those of its family and its tile. Streamed ones have another Scheduler."""
    sizes = "".join(f"Li{size}E" for size in row.tile)
    is_streamed = row.family == "stream_k"
    streamed = SWAP_AB if "swapped" in row.name else COOPERATIVE
    form = f"6FamilyE{streamed if is_streamed else FAMILIES[row.family]}E{sizes}"
    return [name for name in kernels(image) if form in name and (STREAMED in name) == is_streamed]


needs_sass = pytest.mark.skipif(
    not ROWS or cuobjdump() is None,
    reason="CPU-only build or no cuobjdump: no SASS to read",
)


def test_the_parser_reads_opcodes() -> None:
    """On a line of each form that cuobjdump prints."""
    body = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;                   /* 0x00000a00ff017b82 */
                                                                            /* 0x000fe20000000a00 */
        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64] ;  /* 0x1 */
        /*0020*/               @P1 STL.64 [R1], R4 ;   /* 0x2 */
        /*0030*/              @UP0 UMOV UR4, 0x1 ;   /* 0x3 */
        /*0040*/              @!UPT UIADD3 URZ, URZ, URZ, URZ ;   /* 0x4 */
        /*0050*/                   HGMMA.64x128x16.F32 R24, gdesc[UR8], RZ, !UPT ;   /* 0x5 */
    """
    assert opcodes(body) == {"LDC", "LDGSTS", "STL", "UMOV", "UIADD3", "HGMMA"}


@needs_sass
class TestEveryKernel:
    def test_there_are_images(self) -> None:
        assert len(kernels(PORTABLE)) >= len(PORTABLE_ROWS) > 0
        assert bool(kernels(HOPPER)) == bool(HOPPER_ROWS)

    def test_no_kernel_uses_local_memory(self) -> None:
        for image in (PORTABLE, HOPPER):
            for name, body in kernels(image).items():
                assert not opcodes(body) & {"LDL", "STL"}, f"{name} spills or has an array in local memory"

    def test_no_kernel_calls_a_function(self) -> None:
        """A call means that something was not inlined. The slow path of a division is a relative call, and fine."""
        for image in (PORTABLE, HOPPER):
            for name, body in kernels(image).items():
                if image == HOPPER or family(name) in (MMA, GATHER, WIDENED, DIRECT):
                    assert not any(i.startswith("CALL.ABS") for i in instructions(body)), name


@needs_sass
@pytest.mark.skipif(bool(ROWS) and not PORTABLE_ROWS, reason="this library has no portable kernels")
class TestPortableKernels:
    @pytest.mark.parametrize("row", PORTABLE_ROWS, ids=[row.name for row in PORTABLE_ROWS] or None)
    def test_every_row_has_its_kernels_for_every_dtype(self, row: Config) -> None:
        found = of_row(PORTABLE, row)
        assert found, "no kernel"
        if row.family.startswith("mma"):  # the other families are for one dtype each, and do not name it
            for kind in row.operands:
                assert any(is_for(name, kind) for name in found), f"no kernel for {kind}"

    def test_tensor_core_kernels_hold_their_instructions(self) -> None:
        found = {
            name: body for name, body in kernels(PORTABLE).items() if family(name) == MMA and "BlockScaled" not in name
        }
        assert found
        for name, body in found.items():
            assert {"HMMA", "LDGSTS"} <= opcodes(body), name
            assert any(re.match(r"LDGSTS\.E\.BYPASS.*\.128", i) for i in instructions(body)), (
                f"{name}: not 16 bytes at a time, past L1"
            )
            if any(word in name for word in ("6__half", "13__nv_bfloat16", "__nv_fp8")):
                assert "LDSM" in opcodes(body), name
                assert any(i.startswith("HMMA.16816.F32") for i in instructions(body)), name
            else:
                assert any("TF32" in i for i in instructions(body)), name

    def test_block_scaled_kernels_hold_their_instructions(self) -> None:
        """Codes by whole chunks, looked up or moved byte by byte, multiplied as bfloat16."""
        found = {name: body for name, body in kernels(PORTABLE).items() if "gemm_block_scaled" in name}
        assert len(found) == 5 * sum((row.backend, row.family) == ("sm80", "mma") for row in block_scaled())
        for name, body in found.items():
            assert {"LDSM", "STS", "PRMT"} <= opcodes(body), name
            assert any(i.startswith("HMMA.16816.F32.BF16") for i in instructions(body)), name
            assert any(re.match(r"LDG\.E\.(64|128)", i) for i in instructions(body)), name

    @pytest.mark.parametrize("b_dtype", FP8_FORMATS)
    @pytest.mark.parametrize("a_dtype", FP8_FORMATS)
    def test_fp8_kernels_multiply_fp8(self, a_dtype: str, b_dtype: str) -> None:
        """By instructions for it on sm_89; sm_90 has none for mma.sync, and ptxas converts to float16 there."""
        kind = a_dtype if a_dtype == b_dtype else f"{a_dtype}*{b_dtype}"
        formats = f"{FP8_FORMATS[a_dtype]}.{FP8_FORMATS[b_dtype]}"
        for image, wanted in ((ADA, f"QMMA.16832.F32.{formats}"), (PORTABLE, f"F2FP.F16.{formats[:4]}.UNPACK_B")):
            found = {n: body for n, body in kernels(image).items() if "__nv_fp8" in n and is_for(n, kind)}
            assert found or image not in images(), f"no kernel for {kind} in the image of {image}"
            for name, body in found.items():
                assert any(i.startswith(wanted) for i in instructions(body)), f"{image}: {name} has no {wanted}"
                assert not opcodes(body) & {"LDL", "STL"}, f"{image}: {name} spills"

    def test_gather_kernels_use_tensor_cores(self) -> None:
        """Fed by copies of words, where the elements are not fp8, and by elements."""
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == GATHER}
        assert found
        for name, body in found.items():
            assert "HMMA" in opcodes(body), name
            assert ("LDGSTS" in opcodes(body)) == ("AnyFloat8" not in name), name

    def test_widened_kernels_copy_codes_and_multiply_float16(self) -> None:
        """cp.async of 8 bytes, whatever the majors, and no instruction of fp8."""
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == WIDENED}
        assert len(found) == 4
        for name, body in found.items():
            assert {"HMMA", "LDGSTS", "LDSM"} <= {*opcodes(body)}, name
            assert "LDGSTS.E.64" in body, name

    def test_direct_kernels_share_no_k_block(self) -> None:
        """Elements come straight into registers; only sums that warps share pass through shared memory."""
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == DIRECT}
        units = {"MmaProducts": "HMMA", "Tf32Products": "HMMA", "DmmaProducts": "DMMA", "FfmaProducts": "FFMA"}
        assert {unit for unit in units for name in found if unit in name} == {*units}
        for name, body in found.items():
            wanted = next(instruction for unit, instruction in units.items() if unit in name)
            assert {wanted, "LDG"} <= opcodes(body), name
            assert not opcodes(body) & {"LDGSTS", "LDSM"}, name
            shares_k = f"6FamilyE{DIRECT}ELi16ELi16E" in name  # tiles of 16x16 alone
            assert bool(opcodes(body) & {"STS", "LDS"}) == shares_k, name

    def test_simt_kernels_are_ieee(self) -> None:
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == SIMT}
        assert found
        for name, body in found.items():
            assert "FFMA" in opcodes(body), name
            assert "HMMA" not in opcodes(body), name
            assert not any(i.startswith("FFMA.FTZ") for i in instructions(body)), f"{name} flushes subnormal numbers"

    def test_few_rows_are_read_in_whole_vectors(self) -> None:
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == SKINNY}
        assert len(found) == sum(row.family == "skinny" for row in PORTABLE_ROWS)
        for name, body in found.items():
            assert "FFMA" in opcodes(body), name
            assert any(re.match(r"LDG\.E\.(\w+\.)*128", i) for i in instructions(body)), name

    def test_narrow_kernels_load_all_vectors_of_a_step(self) -> None:
        """A load for each vector, of 16 bytes; of four elements where eight columns of sums leave no registers."""
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == NARROW}
        assert len(found) == 5 * 2 * sum(row.family == "narrow" for row in PORTABLE_ROWS), "dtypes by ways of lines"
        for name, body in found.items():
            short = {"AnyFloat8": "", "6__half": r"64\.", "13__nv_bfloat16": r"64\."}
            width, count = r"128\.", 2 if "IdXtl" in name and "Li8ELi64E" in name else 4
            if re.search("Li8ELi64E.*Lb0E", name):  # across k
                width, count = next(((short[word], 8) for word in short if word in name), (width, count))
            assert len(re.findall(rf"LDG\.E\.{width}CONSTANT", body)) >= count, name
            assert not any(i.startswith("FFMA.FTZ") for i in instructions(body)), f"{name} flushes subnormal numbers"

    def test_float64_kernels_use_tensor_cores(self) -> None:
        found = {name: body for name, body in kernels(PORTABLE).items() if family(name) == DMMA}
        assert found
        for name, body in found.items():
            assert "DMMA" in opcodes(body), name


@needs_sass
@pytest.mark.skipif(bool(ROWS) and not HOPPER_ROWS, reason="this library has no Hopper kernels")
class TestHopperKernels:
    @pytest.mark.parametrize("row", HOPPER_ROWS, ids=[row.name for row in HOPPER_ROWS] or None)
    def test_every_row_has_its_kernels_for_every_dtype(self, row: Config) -> None:
        """One for each pair of majors that it reads; of fp8, for each dtype of `b` and output of 16 bits."""
        for kind in row.operands:
            if kind.startswith("float8"):
                pair = f"{FLOAT8}I{DTYPE_IN_NAME[kind.partition('*')[0]]}"
                found = [name for name in of_row(HOPPER, row) if pair in name]
                assert len(found) >= 4, f"{kind}: {found}"
                continue
            if kind == "float32":
                assert sum(BF16X3 in name for name in of_row(HOPPER, row)) == 1
                continue
            if kind == "tf32":  # both along k, or wgmma's rows along m or n where a consumer has 64 of them
                assert sum(TF32 in name for name in of_row(HOPPER, row)) == (1 if row.family == "pingpong" else 2)
                continue
            of_this_row = set(of_row(HOPPER, row)) & set(dense_kernels())
            found = [name for name in of_this_row if DTYPE_IN_NAME[kind] in name]
            assert len(found) >= 4, f"{kind}: {found}"

    def test_they_are_in_the_image_of_9_0a_alone(self) -> None:
        assert all("4sm90" in name for name in kernels(HOPPER))
        assert not any("4sm90" in name for name in kernels(PORTABLE))

    def test_they_use_wgmma_and_tma(self) -> None:
        assert dense_kernels()
        for name, body in dense_kernels().items():
            there = opcodes(body)
            assert {"HGMMA", "UTMALDG"} <= there, f"{name}: {sorted(there)}"
            assert not there & {"HMMA", "LDGSTS"}, name
            dtype = "BF16" if DTYPE_IN_NAME["bfloat16"] in name else "F32"
            assert all(dtype in i for i in instructions(body) if i.startswith("HGMMA")), name

    def test_block_scaled_kernels_use_wgmma_of_their_operands(self) -> None:
        routes = [row.route for row in block_scaled() if row.backend == "sm90"]
        by_form = {name: body for name, body in kernels(HOPPER).items() if BY_ENCODING in name}
        scaled = {name: body for name, body in kernels(HOPPER).items() if SCALED in name and name not in by_form}
        exact = {name: body for name, body in by_form.items() if FLOAT8 not in name}
        fast = {name: body for name, body in by_form.items() if FLOAT8 in name}
        bfloat16, int8, e5m2 = {"HGMMA": "BF16"}, {"IGMMA": "S8.S8"}, {"QGMMA": "E5M2.E5M2"}
        for route, found, wanted in (
            ("int8", exact, int8 | bfloat16),
            ("float8", fast, e5m2 | int8 | bfloat16),
            ("bfloat16", scaled, bfloat16),
        ):
            assert len(found) == 2 * routes.count(route), "one for each output of 16 bits"
            for name, body in found.items():
                there = opcodes(body)
                assert {*wanted, "UTMALDG", "UTMASTG"} <= there, name
                assert not there & ({"HMMA", "LDGSTS", "IGMMA", "HGMMA", "QGMMA"} - set(wanted)), name
                for multiply, dtype in wanted.items():
                    assert all(dtype in i for i in instructions(body) if i.startswith(multiply)), name

    def test_few_rows_of_block_scaled_products_go_through_registers(self) -> None:
        """b is wgmma's first operand: float16 beside float16 and of nvfp4 twice, else bfloat16; of mxfp4 maybe fp8."""
        found = {name: body for name, body in kernels(HOPPER).items() if SMALL_M in name}
        types = [match.groups() for name in found if (match := SCALED_TYPES.search(name)) is not None]
        f16, bf16, e4m3, e2m1, int8 = "0", "1", "4", "6", "7"  # of DType
        pairs = [(a, b, "0") for a in (bf16, e4m3, e2m1) for b in (e4m3, e2m1)]
        pairs += [(a, e2m1, "1") for a in (f16, bf16, e2m1)] + [(a, b, "2") for a in (f16, bf16) for b in (e4m3, int8)]
        assert sorted(types) == sorted((tile, *pair) for tile in ("8", "16", "32", "64") for pair in pairs)
        tiles = sum(row.family == "small_m" for row in block_scaled())
        assert len(found) == len(pairs) * tiles, "one for each pair of formats"
        for (name, body), (tile, *pair) in zip(found.items(), types, strict=True):
            there = opcodes(body)
            assert {"HGMMA", "UTMALDG", "UBLKCP"} <= there, f"{name}: {sorted(there)}"
            assert not there & {"HMMA", "LDGSTS", "IGMMA"}, name
            assert "QGMMA" not in there or pair == [e2m1, e2m1, "0"], name
            dtype = "" if pair[2] != "0" and pair[0] != bf16 else ".BF16"
            for product in re.findall(r"\bHGMMA\.[^;]*", body):
                assert re.match(rf"HGMMA\.64x{tile}x16\.F32{dtype} R\d+, R\d+, gdesc\[", product), f"{name}: {product}"

    def test_fp8_kernels_use_wgmma_of_fp8(self) -> None:
        found = {name: body for name, body in kernels(HOPPER).items() if FLOAT8 in name}
        found = {name: body for name, body in found.items() if BY_ENCODING not in name and FOLDED not in name}
        scaled = [row for row in block_scaled() if row.backend == "sm90" and row.operands[0].startswith("e4m3_")]
        dense_rows = sum(row.route in ("fast", "promoted") for row in HOPPER_ROWS)
        sharing = sum(row.family == "swap_ab" for row in scaled)
        assert len(found) == 8 * dense_rows + 2 * (len(scaled) + sharing), "each pairing, to two outputs; scaled e4m3"
        for name, body in found.items():
            there = opcodes(body)
            assert {"QGMMA", "UTMALDG", "UTMASTG"} <= there, name
            assert not there & {"HMMA", "HGMMA", "LDGSTS"}, name
            tile = re.search(r"6FamilyE(\d)ELi(\d+)ELi(\d+)E", name)
            assert tile is not None
            m, n = (int(size) for size in tile.groups()[1:])
            promoted = "PromotedMainLoop" in name or BLOCK_SCALED in name
            two_sets, three_sets = tile[1] == PING_PONG or promoted, promoted and (m, n) == (128, 128)
            assert ("USETMAXREG" in there) == (m == 192 or (two_sets and n > 128) or three_sets), (
                f"{name}: three consumers take the producer's registers, and two of large sets of sums"
            )

    def test_nothing_holds_up_the_products_of_a_stage_with_scales(self) -> None:
        """Its scales lie in shared memory; behind a branch that ptxas takes for divergent each product has R2UR."""
        found = {name: body for name, body in kernels(HOPPER).items() if BLOCK_SCALED in name}
        assert found
        for name, body in found.items():
            listed = OPCODE.findall(body)
            products = [i for i, instruction in enumerate(listed) if instruction.startswith("QGMMA")]
            between = [listed[i:j] for i, j in itertools.pairwise(products) if j - i < 40]
            assert between, name
            words = {opcode.split(".")[0] for part in between for opcode in part}
            wanted_by_clusters = {"R2UR"} if "ClusteredTiles" in name else set()
            assert not words & {"LDG", "R2UR", "BAR", "MEMBAR"} - wanted_by_clusters, f"{name}: {sorted(words)}"

    def test_float32_kernels_use_wgmma_of_bfloat16(self) -> None:
        """And add float32 outside of it; those of large sums take the producer's registers, as their rows say."""
        found = {name: body for name, body in kernels(HOPPER).items() if BF16X3 in name}
        rows = {(row.family, row.tile) for row in HOPPER_ROWS if row.route == "bf16x6"}
        assert len(found) == len(rows), "one for each tile; how many CTAs split k, they are told"
        for name, body in found.items():
            there = opcodes(body)
            assert {"HGMMA", "UTMALDG", "FADD"} <= there, name
            assert not there & {"HMMA", "LDGSTS", "LDL", "STL"}, name
            assert all("BF16" in i for i in instructions(body) if i.startswith("HGMMA")), name
            assert ("USETMAXREG" in there) == ("ELb1ELi2ELb0ELi0ELb0ELb0ELb0ELi1ELi1EEE" in name), name
        (body,) = (body for name, body in kernels(HOPPER).items() if SPLITS in name)
        assert any(i.startswith("STG.E.128") for i in instructions(body))
        assert not any(i.startswith("FADD.FTZ") for i in instructions(body)), "small parts are not flushed"

    def test_tf32_kernels_use_wgmma_of_tf32(self) -> None:
        found = {name: body for name, body in kernels(HOPPER).items() if TF32 in name}
        assert found
        for name, body in found.items():
            assert {"HGMMA", "UTMALDG", "UTMASTG"} <= opcodes(body), name
            assert not opcodes(body) & {"HMMA", "LDGSTS"}, name
            assert all(i.endswith("x8.F32.TF32") for i in instructions(body) if i.startswith("HGMMA")), name

    def test_operands_are_prepared_in_whole_vectors(self) -> None:
        found = {name: body for name, body in kernels(HOPPER).items() if PREPARES in name}
        assert len(found) == 6
        for name, body in found.items():
            assert any(re.match(r"STG\.E\.128", i) for i in instructions(body)), name
            assert "PRMT" in opcodes(body), name

    def test_persistent_kernels_store_by_tma(self) -> None:
        for name, body in dense_kernels().items():
            if family(name) in (COOPERATIVE, PING_PONG, SWAP_AB):
                assert "UTMASTG" in opcodes(body), name

    def test_clusters_load_together_without_a_fence_of_the_gpu(self) -> None:
        """A part of an operand for several CTAs, and arrivals at their barriers that wait for nothing: two fences, one
        in front of each meeting of the cluster, are before the first tile and behind the last one."""
        together = [row for row in HOPPER_ROWS if re.match(r"sm90_(cluster|stream_k_)\dx\d_", row.name)]
        assert len(together) == 14 + 4
        found = {name for row in together for name in of_row(HOPPER, row)} & set(dense_kernels())
        found = {name for name in found if any("MULTICAST" in i for i in instructions(kernels(HOPPER)[name]))}
        assert len(found) >= 18 * 2 * 4, "a kernel for each dtype and pair of majors"
        for name in found:
            fences = len(re.findall(r"MEMBAR\S*\.GPU", kernels(HOPPER)[name]))
            assert fences <= (2 if STREAMED in name else 1), f"{name}: {fences}"  # streamed sums are released, too

    def test_one_thread_issues_tma_without_a_loop_over_the_active_ones(self) -> None:
        """Where ptxas does not know that one thread runs, it puts such a loop around every load and store."""
        for name, body in kernels(HOPPER).items():
            assert not any("BRA.U.ANY" in i for i in instructions(body)), name

    def test_they_wait_for_the_kernel_before(self) -> None:
        """Programmatic dependent launch is on for all of them; ACQBULK is griddepcontrol.wait."""
        for name, body in kernels(HOPPER).items():
            assert "ACQBULK" in opcodes(body), f"{name} does not wait for the kernel that it is launched behind"
