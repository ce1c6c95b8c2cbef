"""What is wrong with a file that should be a shared library of this machine, by its ELF header alone.

The loader's own words for these are poor ("invalid ELF header"), and a file that was cut short can end the process by
SIGBUS. The layout is that of elf(5).
"""

from __future__ import annotations

import platform
import struct
from pathlib import Path

# e_machine, and what `platform.machine()` calls it
MACHINES = {3: "i686", 21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}

_OTHER_FORMATS = {
    b"MZ": "a Windows library",
    b"\xcf\xfa\xed\xfe": "a macOS library",
    b"\xca\xfe\xba\xbe": "a macOS library",
    b"PK": "a zip archive or a wheel: `pip install` it",
    b"version https://git-lfs": "a Git LFS pointer: `git lfs pull` brings the file",
}

_SHARED_OBJECT = 3  # ET_DYN
_LOADED = 1  # PT_LOAD
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")


def complaint(path: Path) -> str | None:
    """Why this cannot be a shared library for this machine, as the end of "It ..."; None where nothing speaks against.

    Raises:
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if not head:
            return "is empty"
        if not head.startswith(b"\x7fELF"):
            other = next((name for magic, name in _OTHER_FORMATS.items() if head.startswith(magic)), None)
            return f"is {other}" if other else f"is no library: it begins with {head[:16]!r}"
        if len(head) < _HEADER.size:
            return f"is cut short: {size} bytes are here"
        if head[4:6] != b"\x02\x01":
            return "is not a library for a 64-bit little-endian machine"
        _, kind, number, _, _, segments_at, sections_at, _, _, _, segments, section_size, sections, _ = _HEADER.unpack(
            head
        )
        machine = MACHINES.get(number, f"a machine of ELF number {number}")
        if machine != platform.machine():
            return f"is for {machine}, and this machine is {platform.machine()}"
        if kind != _SHARED_OBJECT:
            return "is not a shared library (a program or an object file?)"
        needed = max(segments_at + segments * _SEGMENT.size, sections_at + sections * section_size)
        file.seek(segments_at)
        table = file.read(segments * _SEGMENT.size)
    for at in range(0, len(table) - _SEGMENT.size + 1, _SEGMENT.size):
        segment_type, _, offset, _, _, in_file, _, _ = _SEGMENT.unpack_from(table, at)
        if segment_type == _LOADED:
            needed = max(needed, offset + in_file)
    return f"is cut short: {size} of {needed} bytes are here" if size < needed else None
