"""What the kernels for few rows by a weight alone scaled consist of, in the library's code, and what they wait for."""

from __future__ import annotations

import re

from sass_images import instructions, without_code
from sass_schedule import NO_SCOREBOARD, is_in_a_loop, products_before_a_wait, scheduled
from test_sass import DIRECT_WEIGHT, HOPPER, kernels, needs_sass, opcodes

from tileon_ops._rules.configs import block_scaled

# In a mangled name: the tile, the elements of a and b (DType), and the scales (0: e8m0, 1: e4m3, 2: float32).
TYPES = re.compile(r"DirectWeightTypesILi(\d+)ELi(\d+)ELNS_5DTypeE(\d)ELS\w+_(\d)ELNS_9ScaleTypeE(\d)E")
SCALES = re.compile(r"LDG\.E\.CONSTANT")  # a word of four
CODES = re.compile(r"LDG\.E\.NA\.LTC256B\.128\.CONSTANT")  # ptx/load_once.cuh


def types_of(name: str) -> tuple[int, ...]:
    found = TYPES.search(name)
    assert found is not None, name
    return tuple(map(int, found.groups()))


def chunk_products(name: str) -> int:
    """HMMA of one chunk of k, 128 long: each one multiplies 16 rows of the weight by 8 of `a`, 16 k."""
    tile_m, tile_n, *_ = types_of(name)
    return tile_m // 8 * tile_n // 16 * 8


def early_waits(name: str, body: str, loads: re.Pattern[str]) -> list[str]:
    """Loads of the main loop, all of them for the next chunk, for which a wait stands before most of this one's
    products. Some of those may go in front of a load."""
    code = scheduled(body)

    def waits_early(place: int) -> bool:
        products = products_before_a_wait(code, place)
        return products is not None and 4 * products < 3 * chunk_products(name)

    found = [place for place, i in enumerate(code) if loads.match(i.text) and is_in_a_loop(code, place)]
    assert found, name
    return [f"{code[place].address:#x}: {code[place].text}" for place in found if waits_early(place)]


@needs_sass
def test_codes_go_straight_into_registers_and_a_through_shared_memory() -> None:
    """One kernel for each pair of formats."""
    found = {name: body for name, body in kernels(HOPPER).items() if DIRECT_WEIGHT in name}
    tiles = [row.tile[1] for row in block_scaled() if row.family == "direct_weight"]
    assert len(found) == 9 * tiles.count(16) + 4 * tiles.count(32), "fp4 alone has tiles of 32 rows"
    for name, body in found.items():
        there = opcodes(body)
        assert {"HMMA", "LDG", "LDGSTS", "LDS", "STS"} <= there, name
        assert not there & {"HGMMA", "UTMALDG", "UBLKCP", "LDSM"}, name
        of_sixteen_bytes = {i for i in instructions(body) if re.match(r"LDG\.E\.(NA\.)?(LTC\w+\.)?128", i)}
        assert len(of_sixteen_bytes) == 1, name
        assert CODES.fullmatch(of_sixteen_bytes.pop()), f"{name} loads `a` into registers"


@needs_sass
def test_no_wait_for_the_next_codes_stands_before_this_chunks_products() -> None:
    """ptxas gives loads of both chunks one scoreboard: behind the next one's, a wait for this one's is for both."""
    for name, body in kernels(HOPPER).items():
        if DIRECT_WEIGHT in name:
            assert early_waits(name, body, CODES) == [], name


@needs_sass
def test_no_wait_for_the_next_scales_stands_before_this_chunks_products() -> None:
    for name, body in kernels(HOPPER).items():
        if DIRECT_WEIGHT in name and types_of(name)[4] != 2:
            assert early_waits(name, body, SCALES) == [], name


def test_the_schedule_is_read_from_control_bits() -> None:
    """On lines as cuobjdump prints them: of the two words of each instruction the lower one stands first."""
    body = """
        /*1a60*/               @P0 LDG.E.NA.LTC256B.128.CONSTANT R24, desc[UR8][R12.64] ;   /* 0x000000080c180981 */
                                                                                            /* 0x000762000c5e9d30 */
        /*1a70*/                   LDGDEPBAR ;                                              /* 0x00000000000079af */
                                                                                            /* 0x000e220000000000 */
        /*1a80*/                   HMMA.16816.F32.BF16 R32, R32, R52, R36 ;                 /* 0x000000342020723c */
                                                                                            /* 0x020fe20000041824 */
        /*1a90*/               @P0 BRA 0x1a60 ;                                             /* 0xfffffffc00f00947 */
                                                                                            /* 0x001fea000383ffff */
        /*1aa0*/                   BRA.DIV UR7, 0x5220 ;                                    /* 0x0000004207a47947 */
                                                                                            /* 0x000fec000b800000 */
    """
    load, commit, product, back, apart = scheduled(without_code(body))
    assert load == (0x1A60, True, "LDG.E.NA.LTC256B.128.CONSTANT R24, desc[UR8][R12.64]", 5, 0)
    assert (commit.scoreboard, product.scoreboard, apart.scoreboard) == (0, NO_SCOREBOARD, NO_SCOREBOARD)
    assert (product.waits_for, back.waits_for, apart.waits_for) == (1 << 5, 1 << 0, 0)
    assert (back.target, back.always_jumps, apart.target) == (0x1A60, False, None)


class TestEarlyWaits:
    """Of a loop of eight products, on lines as sass_images has them: control bits of a load on scoreboard 5 (7a2), of
    a wait for it (107e2), and of neither (7e2)."""

    NAME = "weight_directINS0_17DirectWeightTypesILi8ELi16ELNS_5DTypeE1ELS3_6ELNS_9ScaleTypeE0E"
    LOAD = "@P0 LDG.E.NA.LTC256B.128.CONSTANT R16, desc[UR8][R16.64] ; 7a2"
    PRODUCT = "HMMA.16816.F32.BF16 R32, R32, R52, R36 ; 7e2"
    WAITING_PRODUCT = "HMMA.16816.F32.BF16 R32, R32, R52, R36 ; 107e2"
    BACK = "@P1 BRA 0x10 ; 7e2"
    WAITING_BACK = "@P1 BRA 0x10 ; 107e2"

    def found(self, *lines: str) -> list[str]:
        all_lines = (self.LOAD, *lines, "EXIT ; 7e2")  # the prologue's load is in no loop
        body = "\n".join(f"        /*{16 * i:04x}*/     {line}" for i, line in enumerate(all_lines))
        return early_waits(self.NAME, body, CODES)

    def test_behind_the_products(self) -> None:
        assert self.found("NOP ; 7e2", self.LOAD, *[self.PRODUCT] * 8, self.WAITING_BACK) == []

    def test_at_the_next_rounds_start(self) -> None:
        assert self.found("NOP ; 107e2", self.LOAD, *[self.PRODUCT] * 8, self.BACK) == []

    def test_two_products_in_front_of_the_load(self) -> None:
        assert self.found(*[self.PRODUCT] * 2, self.LOAD, *[self.PRODUCT] * 6, self.WAITING_BACK) == []

    def test_before_the_products(self) -> None:
        assert len(self.found("NOP ; 7e2", self.LOAD, self.WAITING_PRODUCT, *[self.PRODUCT] * 7, self.BACK)) == 1

    def test_half_of_the_products_in_front_of_the_wait(self) -> None:
        products = [*[self.PRODUCT] * 4, self.WAITING_PRODUCT, *[self.PRODUCT] * 3]
        assert len(self.found("NOP ; 7e2", self.LOAD, *products, self.BACK)) == 1

    def test_a_load_on_another_scoreboard_does_not_matter(self) -> None:
        other = "LDS.128 R12, [R13] ; 782"  # on scoreboard 4, which the products wait for
        products = ["HMMA.16816.F32.BF16 R32, R32, R52, R36 ; 87e2"] * 8
        assert self.found("NOP ; 7e2", self.LOAD, other, *products, self.WAITING_BACK) == []
