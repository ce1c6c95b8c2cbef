"""Which module `python -m` is about to run."""

from __future__ import annotations

import sys

_WITH_VALUE = "cmWX"  # Python's flags that take the rest of their word, or the next word


def module_to_run() -> str | None:
    """The module that `python -m` names, while Python imports its parent packages; None at any other import.

    `python -m tileon_ops.info` begins with `import tileon_ops`, and is there for whoever cannot import that. Neither
    Python nor runpy tells a package which of its modules is asked for, so that its own words have to: until it has
    found the module, Python has "-m" in the place of sys.argv[0], and its command line is in sys.orig_argv.
    """
    if sys.argv[:1] != ["-m"]:
        return None
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, None)
            continue
        for place, flag in enumerate(word[1:], 2):  # one word may hold several: -um tileon_ops.info
            if flag in _WITH_VALUE:
                value = word[place:] or next(words, "")
                if flag == "m":
                    return value
                break
    return None
