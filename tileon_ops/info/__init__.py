"""What is here: torch, CUDA, GPUs, what the library was built for, which kernels the ops take, and what is wrong.

    python -m tileon_ops.info            # for people; the last section says what to do
    python -m tileon_ops.info --json     # for programs

never raises, whatever is broken: what cannot be found out is said in its place, and what ends the process ends only a
child of it. The exit status is 0 where `import tileon_ops` works and 1 where it does not.

The JSON is one object. Its keys are fixed, and all are there whatever fails; a later version may add some. A section's
own "error" is null unless something unforeseen ended it; what is not known is null, or empty.

    schema         1
    usable         whether `import tileon_ops` works
    package        version, path, is_source_tree
    python         version, executable, platform, machine, libc, free_threaded
    torch          version, path, cuda, hip, cxx11_abi, debug; failure: why it cannot be imported
    cuda           driver, driver_cuda (the newest that it knows), driver_problem, toolkit (nvcc), toolkit_path,
                   visible_devices, usable_by_torch, torch_problem;
                   gpus: a list of index, name, capability, memory_gib, found_by
    library        path, exists, loads, failure, version, cuda ("none": for the CPU alone), targets, torch (which built
                   it), stable_abi (the oldest torch), watchdog, sources, rows_of_hopper, rows_portable (of the tile
                   tables); gpus: a list of index, image (which of the targets that GPU runs)
    backends       calls: a list of op, dtype, device, operands, kernel, why_not_faster, failure
    variables      the environment variables that matter, null where not set
    tuning_cache   path, exists, writable, entries (used here), failure;
                   files: a list of path, entries, gpu, version, state, failure
    copies         on_path and installed: for tileon_ops and torch a list of path, version (installed: editable);
                   mapped: libraries of the process, by name
    problems       a list of level ("error" or "warning"), what, do
"""

from __future__ import annotations

from typing import Any

from tileon_ops.info.doctor import examine_here
from tileon_ops.info.sections import SECTIONS, document


def report() -> dict[str, Any]:
    """The object that `--json` prints, looked for in this process. It raises nothing; a section that fails says so."""
    return document(examine_here(SECTIONS, {}))
