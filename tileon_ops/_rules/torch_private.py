"""torch's names that are not public: each is looked up once, here, and no other module of the package names one.

They make eager calls faster; a later torch may be without them. So they stand in groups. Where one of a group is
missing, all that the group serves takes torch's public interfaces, which are slower and as right, and
`import tileon_ops` warns once (`warn_of_missing`).

======== ======================================================= ======================================================
group    serves                                                  behind it
======== ======================================================= ======================================================
below    ops that refuse gradients (autograd/no_grad.py)         torch.library.register_autograd, torch_library.py there
autograd gradients of `matmul` (autograd/kernel.py)              the same (autograd/public.py)
shortcut `tileon_ops.matmul`, layers (autograd/shortcut.py)      a call of the op
         and recorded products of the CPU (autograd/of_torch.py)
out      `out=` and its version counter (out.py)                 the op without `out`, and `out.copy_`
autocast the op below its autocast rule (autocast.py)            torch.autocast(..., enabled=False)
======== ======================================================= ======================================================

What stands alone has its own words on what is done without it. Three are looked up at their first use, as they take
long to import: inductor's class of passes and its lowerings, and what DTensor keeps of an op.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

_missing: list[str] = []


def _find(name: str) -> Any:
    """What torch has under "module:attribute.attribute"; None, and noted as missing, where it has nothing there."""
    try:
        return pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        _missing.append(name.replace(":", "."))
        return None


class _Group:
    """Names that serve one thing together, those of the groups that it needs among them."""

    def __init__(self, *needs: _Group) -> None:
        self._needs = needs
        self._found: list[Any] = []

    def find(self, name: str) -> Any:
        self._found.append(_find(name))
        return self._found[-1]

    @property
    def is_whole(self) -> bool:
        return all(found is not None for found in self._found) and all(group.is_whole for group in self._needs)


# What the dispatcher hands a kernel on the Autograd key, and how the call goes on to the keys below: the key set that
# it came with, less autograd's keys, which are left out of what is called from there too.
below = _Group()
BelowAutograd: Any = below.find("torch._C:_AutoDispatchBelowAutograd")
after_autograd_keyset: Any = below.find("torch._C:_after_autograd_keyset")
below.find("torch._C:DispatchKeySet.__and__")
below.find("torch:ops.aten.mm.default.redispatch")
below.find("torch:ops.aten.mm.default._handle.redispatch_boxed")  # what that calls
# Whether there is anything to do first: one call in C++ for all arguments, and the innermost level of dual numbers, a
# variable of that module, -1 outside.
any_requires_grad: Any = below.find("torch._C:_any_requires_grad")
below.find("torch.autograd.forward_ad:_current_level")

# The kernel on matmul's Autograd key, which each eager call passes.
autograd = _Group(below)
# which kernel comes next for a key set, to be remembered by its bits
autograd.find("torch._C:DispatchKeySet.raw_repr")
autograd.find("torch._C:DispatchKeySet.remove")
autograd.find("torch._C:DispatchKeySet.highestPriorityTypeId")
ADInplaceOrView: Any = autograd.find("torch._C:DispatchKey.ADInplaceOrView")
CPU: Any = autograd.find("torch._C:DispatchKey.CPU")
CUDA: Any = autograd.find("torch._C:DispatchKey.CUDA")
# the innermost transform of torch.func, None outside of them
peek_interpreter_stack: Any = autograd.find("torch._C._functorch:peek_interpreter_stack")
Jvp: Any = autograd.find("torch._C._functorch:TransformType.Jvp")
# an autograd.Function at one level of torch.func's transforms
SingleLevelFunction: Any = autograd.find("torch.autograd.function:_SingleLevelFunction")
allow_single_level: Any = autograd.find("torch._functorch.utils:enable_single_level_autograd_function")
# its tangents: forward mode on again, and a tensor without its tangent of the innermost level
set_forward_grad_enabled: Any = autograd.find("torch.autograd.forward_ad:_set_fwd_grad_enabled")
primal_of: Any = autograd.find("torch:ops.aten._fw_primal")

# Whether anything stands before an op's kernel on the Autograd key, and a call of an op without its Python.
shortcut = _Group(autograd)
is_any_autocast_enabled: Any = shortcut.find("torch._C:_is_any_autocast_enabled")
count_function_modes: Any = shortcut.find("torch._C:_len_torch_function_stack")
count_dispatch_modes: Any = shortcut.find("torch._C:_len_torch_dispatch_stack")
fp32_precision: Any = shortcut.find("torch._C:_get_fp32_precision_getter")
shortcut.find("torch:ops.aten.mm.default._op")

# As `below`, for the key that counts writes.
out = _Group(below)
BelowADInplaceOrView: Any = out.find("torch._C:_AutoDispatchBelowADInplaceOrView")
after_ADInplaceOrView_keyset: Any = out.find("torch._C:_after_ADInplaceOrView_keyset")

# Keys left out of what is called from here.
autocast = _Group()
DispatchKeySet: Any = autocast.find("torch._C:DispatchKeySet")
ExcludeKeys: Any = autocast.find("torch._C:_ExcludeDispatchKeyGuard")
AUTOCAST_KEYS: dict[str, Any] = {
    "cuda": autocast.find("torch._C:DispatchKey.AutocastCUDA"),
    "cpu": autocast.find("torch._C:DispatchKey.AutocastCPU"),
}


def redispatch_boxed(op: Any) -> Callable[..., Any]:
    """`op` for a key set, its first argument; of the group `below`."""
    redispatch: Callable[..., Any] = op._handle.redispatch_boxed
    return redispatch


def without_overhead(op: Any) -> Callable[..., Any]:
    """The call inside of op(...), which a compiler does not know as it knows `op`. Of the group `shortcut`."""
    call: Callable[..., Any] = op._op
    return call


# A rule of sizes that may be symbols, which is checked at run time where they leave it open. Without it such a function
# is compiled again for other sizes (_rules/fake/checks.py).
torch_check: Any = _find("torch:_check")


# A tensor that has a shape, a dtype and a device, and no memory. Without it a layer's `weight` is decoded whenever
# somebody asks for it (nn/decoded_weight.py).
tensor_without_memory: Any = _find("torch:Tensor._make_wrapper_subclass")


def function_behind(name: str) -> Any:
    """What torch.nn.functional.<name> calls, which stands in graphs of torch.compile: without it tileon_ops.fuse does
    not know that function there."""
    return _find(f"torch._C._nn:{name}")


def is_mutable(op: Any) -> bool:
    """Whether an op writes an argument. Without its schema, it may: tileon_ops.fuse then moves no product past it."""
    schema = getattr(op, "_schema", None)
    return schema is None or bool(schema.is_mutable)


def compiler_pass() -> Any:
    """The class of a pass that inductor caches the results of; importing it imports torch's compiler. Without it
    tileon_ops.fuse is a pass whose results are not cached."""
    try:
        return pkgutil.resolve_name("torch._inductor.custom_graph_pass:CustomGraphPass")
    except (AttributeError, ImportError):
        return object


class Inductor(NamedTuple):
    """How inductor is told what to write for an op."""

    make_fallback: Callable[..., Any]
    register_lowering: Callable[..., Any]
    fallback_handler: Callable[..., Any]
    get_layout_constraint_tag: Callable[..., Any]
    tag_to_layout_constraint: Callable[..., Any]
    graph_state: Any  # has `aot_compilation`, `current_node` and, of the graph that is being lowered, `graph`


def of_inductor() -> Inductor | None:
    """Of a process that has imported inductor. Without one of the names a compiled program calls the ops by their
    kernels on the Autograd key, as eager ones do."""
    try:
        lowering = [pkgutil.resolve_name(f"torch._inductor.lowering:{name}") for name in Inductor._fields[:-1]]
        graph_state = pkgutil.resolve_name("torch._inductor.virtualized:V")
        _ = graph_state.aot_compilation, type(graph_state).current_node
    except (AttributeError, ImportError):
        return None
    return Inductor._make([*lowering, graph_state])


def expected_size(size: Any, otherwise: int) -> int:
    """What a size that may be a symbol is expected to be, for a choice that may be wrong: `otherwise` where nothing is
    known of it, or where this torch has neither function that tells."""
    if isinstance(size, int):
        return size
    for name in ("optimization_hint", "hint_int"):
        try:
            tell = pkgutil.resolve_name(f"torch.fx.experimental.symbolic_shapes:{name}")
        except AttributeError:
            continue
        return int(tell(size, otherwise))
    return otherwise


def of_dtensor() -> tuple[Any, Any]:
    """The class by which DTensor knows what a decision on an op depends on, and where it keeps one for each op.

    No public interface takes their place.

    Raises:
        AttributeError, ImportError: this torch is without one; _rules/sharding turns that into a warning.
    """
    return (
        pkgutil.resolve_name("torch.distributed.tensor._op_schema:RuntimeSchemaInfo"),
        pkgutil.resolve_name("torch.distributed.tensor:DTensor._op_dispatcher.sharding_propagator.op_to_schema_info"),
    )


def warn_of_missing() -> None:
    """One warning with the names that this torch lacks, where there are any."""
    if _missing:
        warnings.warn(
            f"tileon_ops: torch {torch.__version__} has no {', '.join(_missing)}. torch's public interfaces take their "
            "place, which are slower and give the same results.",
            stacklevel=4,  # who imports tileon_ops
        )
