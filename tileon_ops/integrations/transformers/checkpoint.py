"""What the files of a checkpoint hold, by their headers alone: which weights are quantized, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tileon_ops.integrations.transformers.layouts.encoding import Encoding, Layout, Stored

_BYTE = ("F8", "I8", "U8", "F4", "I4")
_NO_COMPANIONS = (".weight", ".bias")


@dataclass(frozen=True)
class Held:
    """A quantized weight of the files.

    Attributes:
        base: the name of its layer there, or of its parameter.
        encoding: how it is stored.
        keys: the names of its tensors, by their ends.
        unused: the names of those beside it that are not used.
        nbytes: of its tensors.
    """

    base: str
    encoding: Encoding
    keys: Mapping[str, str]
    unused: tuple[str, ...]
    nbytes: int

    @property
    def parameter(self) -> str:
        return self.base + self.encoding.parameter


def stored_tensors(files: Sequence[str] | None) -> dict[str, Stored]:
    """The tensors of files of safetensors by their names; none of other files."""
    found: dict[str, Stored] = {}
    for file in files or ():
        if not str(file).endswith(".safetensors"):
            continue
        from safetensors import safe_open

        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (it is no dict)
                tensor = opened.get_slice(name)
                found[name] = Stored(tensor.get_dtype(), tuple(tensor.get_shape()))
    return found


def held_weights(stored: Mapping[str, Stored], layout: Layout) -> list[Held]:
    """The quantized weights, in the order of their names.

    Raises:
        RuntimeError: "TileonConfig: ..." for weights whose tensors are not those of the layout, and where it has none.
    """
    ends = tuple(dict.fromkeys(end for encoding in layout.encodings for end in encoding.tensors))
    bases: dict[str, dict[str, str]] = {}
    beside: dict[str, list[str]] = {}
    for name in sorted(stored):
        end = _longest(name, (*ends, *_NO_COMPANIONS, *layout.unused))
        if end in ends:
            bases.setdefault(name.removesuffix(end), {})[end] = name
        else:
            beside.setdefault(name.rpartition(".")[0], []).append(name)
    found = [
        _held(base, keys, beside.get(base, []), stored, layout)
        for base, keys in bases.items()
        if _is_quantized(keys, stored)
    ]
    if not found:
        raise RuntimeError(
            f"TileonConfig: the checkpoint's config names {layout.name}, and its files must be safetensors that hold "
            f"such weights, got none with tensors of the names ...{', ...'.join(ends)}"
        )
    return found


def check_plain(stored: Mapping[str, Stored]) -> None:
    """RuntimeError where the weights of a checkpoint whose config names no quantization are quantized."""
    for name, tensor in stored.items():
        if name.endswith((".weight", ".weight_packed")) and tensor.dtype.startswith(_BYTE):
            raise RuntimeError(
                "TileonConfig: weights of a checkpoint whose config.json has no `quantization_config` (and which has "
                "no hf_quant_config.json beside its files) must be float32, float16 or bfloat16, got "
                f"{name} of {tensor}"
            )


def _longest(name: str, ends: Iterable[str]) -> str | None:
    return max((end for end in ends if name.endswith(end)), key=len, default=None)


def _is_quantized(keys: Mapping[str, str], stored: Mapping[str, Stored]) -> bool:
    """Whether there is more than a plain `weight` of numbers."""
    return set(keys) != {".weight"} or stored[keys[".weight"]].dtype.startswith(_BYTE)


def _held(
    base: str, keys: Mapping[str, str], beside: Sequence[str], stored: Mapping[str, Stored], layout: Layout
) -> Held:
    reasons = []
    for encoding in layout.encodings:
        missing = [end for end in encoding.tensors if end not in keys]
        tensors = {end: stored[name] for end, name in keys.items()}
        reason = f"there is no {', '.join(missing)}" if missing else encoding.reason_against(tensors)
        if reason:
            reasons.append(f"{encoding.format}: {reason}")
            continue
        unused = tuple(name for name in beside if name.endswith(layout.unused))
        others = [name for name in (*beside, *keys.values()) if not _is_known(name, keys, encoding, unused)]
        if others:
            raise RuntimeError(
                f"TileonConfig: beside a weight in {layout.name} there must be no other tensors than a bias and those "
                f"of its activations' scales, got {', '.join(others)}"
            )
        nbytes = sum(prod(stored[keys[end]].shape) * _element_size(stored[keys[end]]) for end in encoding.tensors)
        return Held(base, encoding, {end: keys[end] for end in encoding.tensors}, unused, nbytes)
    raise RuntimeError(
        f"TileonConfig: the tensors of {base} must be those of {layout.name} ({'; '.join(reasons)}), got "
        + ", ".join(f"{name.removeprefix(base)} {stored[name]}" for name in keys.values())
    )


def _is_known(name: str, keys: Mapping[str, str], encoding: Encoding, unused: Sequence[str]) -> bool:
    return name.endswith(_NO_COMPANIONS[1:]) or name in unused or any(keys.get(end) == name for end in encoding.tensors)


def _element_size(tensor: Stored) -> int:
    return {"F32": 4, "BF16": 2, "F16": 2}.get(tensor.dtype, 1)
