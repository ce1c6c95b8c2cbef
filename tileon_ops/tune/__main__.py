"""`python -m tileon_ops.tune`: tunes, and shows or clears what is remembered, from the shell."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tileon_ops.tune import cache, tuned_configs
from tileon_ops.tune.measurement import SECONDS
from tileon_ops.tune.problems import DTYPES, LAYOUTS
from tileon_ops.tune.scaled_operands import FORMATS, OTHERS
from tileon_ops.tune.tuning import HEADER, TuneReport, aligned, tune, tuned_problem


def _shapes(text: str) -> list[tuple[int, ...]]:
    """MxNxK or BATCHxMxNxK, several with commas."""
    try:
        return [tuple(int(size) for size in part.split("x")) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not MxNxK or BATCHxMxNxK, several with commas") from None


def _names(text: str) -> list[str]:
    return text.split(",")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tileon_ops.tune",
        description="Measures which row of the tile table computes given products fastest on this GPU, and remembers "
        "it: later processes take it by themselves.",
    )
    parser.add_argument("--shapes", type=_shapes, help="MxNxK or BATCHxMxNxK, several with commas")
    parser.add_argument("--dtype", type=_names, help=f"{', '.join(DTYPES)}, several with commas (bfloat16)")
    parser.add_argument("--layout", type=_names, default="NN,NT", help=f"{', '.join(LAYOUTS)} (%(default)s)")
    parser.add_argument("--format", type=_names, default=(), help=f"with scales: {', '.join(FORMATS)}, {OTHERS}")
    parser.add_argument("--activation", default="none", help="as in the calls to be made (%(default)s)")
    parser.add_argument("--bias", action="store_true", help="with a bias")
    parser.add_argument("--out-dtype", help="the result's (the op's default)")
    parser.add_argument("--fast-accum", action="store_true", help="with the op's fast_accum")
    parser.add_argument("--device", help="the GPU (the current one)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="to measure one problem, about (%(default)s)")
    parser.add_argument("--force", action="store_true", help="measure what is known already once more")
    parser.add_argument("--no-progress", action="store_true", help="no bar on the standard error stream")
    parser.add_argument("--show", action="store_true", help="what is remembered, for every GPU and library")
    parser.add_argument("--clear", action="store_true", help="forget it; before tuning, where shapes are given")
    return parser


def _show(folder: Path | None) -> None:
    paths = [] if folder is None else cache.files(folder)
    print(f"tuning cache: {folder or 'none, since there is no home directory'}, {len(paths)} files")
    for path in paths:
        print(f"\n{path.name}")
        try:
            gpu, library, choices = cache.read_any(path)
        except (OSError, ValueError) as error:
            print(f"cannot be read: {error}")
            continue
        whose = "this library" if library == tuned_configs.library_parts() else "another library or environment"
        print(f"{gpu.get('name')}, {gpu.get('multiprocessors')} multiprocessors; of {whose}, {library}")
        lines = [tuned_problem(problem, choice, measured=True).cells() for problem, choice in choices.items()]
        print(aligned([HEADER, *lines]))


def _tune(arguments: argparse.Namespace) -> TuneReport:
    options: dict[str, Any] = {
        "layouts": arguments.layout,
        "formats": arguments.format,
        "bias": arguments.bias,
        "activation": arguments.activation,
        "out_dtype": arguments.out_dtype,
        "fast_accum": arguments.fast_accum,
        "device": arguments.device,
        "seconds": arguments.seconds,
        "force": arguments.force,
        "progress": not arguments.no_progress,
    }
    return tune(arguments.shapes, arguments.dtype, **options)


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if not (arguments.shapes or arguments.show or arguments.clear):
        parser.error("one of --shapes, --show and --clear is needed")
    folder = cache.directory()
    try:
        if arguments.clear:
            removed = 0 if folder is None else cache.clear(folder)
            tuned_configs.forget()
            print(f"{removed} files removed from {folder}")
        if arguments.shapes:
            print(_tune(arguments))
        if arguments.show:
            _show(folder)
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
