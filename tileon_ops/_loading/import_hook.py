"""Running something as soon as a module has been imported, without importing it.

What extends a module that takes long to import can wait for it this way, in whichever order a program imports the two.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _ThenCall(Loader):
    """The module's own loader, and after it the action."""

    def __init__(self, loader: Loader, action: Callable[[], None]) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # nobody who looks at the module finds anything changed
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._action()


class _Asking(threading.local):
    """Whether this thread asks the other finders. Imports hold a lock of Python's meanwhile, but code that calls the
    finders of sys.meta_path itself does not, and an import in another thread must not pass the action by."""

    now = False


class _Watch(MetaPathFinder):
    """Answers for one module alone, and for that one with what the other finders say."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action
        self._asking = _Asking()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._asking.now:
            return None
        self._asking.now = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenCall(spec.loader, self._done)
        return spec

    def _done(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._action()


def after_import(name: str, action: Callable[[], None]) -> None:
    """Calls `action` once the module `name` has been imported: now, where it has been already."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action))
