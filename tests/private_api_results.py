"""What the ops give in a torch that lacks some of its private names; test_private_apis.py runs this as a program.

    python private_api_results.py <file> [<name> ...]

takes the names away while tileon_ops is imported, calls everything that they serve, and writes the results to the file:
tensors and messages by name, and the warnings of the import.
"""

from __future__ import annotations

import pathlib
import pkgutil
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

Results = dict[str, Any]

ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
SHAPES = (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((1, 3, 4), (2, 4, 5)))
E4M3 = torch.float8_e4m3fn


def import_without(names: list[str]) -> list[str]:
    """Imports tileon_ops in a torch without the names, and returns the warnings. Taken from torch itself they would be
    missed by the public interfaces, so they are taken from where the package looks them up."""
    resolve = pkgutil.resolve_name

    def resolve_others(name: str) -> Any:
        if name in names:
            raise AttributeError(name)
        return resolve(name)

    pkgutil.resolve_name = resolve_others
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import tileon_ops  # noqa: F401
    finally:
        pkgutil.resolve_name = resolve
    return [str(warning.message) for warning in caught]


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(shape_a: tuple[int, ...] = (3, 4), shape_b: tuple[int, ...] = (4, 5)) -> list[Tensor]:
    return [normal(*shape_a, seed=0), normal(*shape_b, seed=1), normal(shape_b[-1], seed=2)]


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [t.requires_grad_() for t in operands(*shapes)]


def refusal(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The message of the RuntimeError (NotImplementedError is one) that the call must raise."""
    try:
        function(*arguments, **options)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("the call was not refused")


def products(results: Results) -> None:
    import tileon_ops

    for face, matmul in (("op", torch.ops.tileon.matmul), ("function", tileon_ops.matmul)):
        for shape_a, shape_b in SHAPES:
            a, b, bias = operands(shape_a, shape_b)
            for activation in ACTIVATIONS:
                results[f"{face} {shape_a} {activation}"] = matmul(a, b, bias, activation=activation, slope=0.3)
        a, b, bias = (t.half() for t in operands())
        results[f"{face} float16 to float32"] = matmul(a, b, out_dtype=torch.float32)
        results[f"{face} fp8"] = matmul(a.to(E4M3), b.to(E4M3), fast_accum=True)
        with torch.no_grad():
            results[f"{face} no_grad"] = matmul(*leaves())
        with torch.inference_mode():
            results[f"{face} inference mode"] = matmul(*operands()).clone()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            results[f"{face} autocast"] = matmul(*(t.float() for t in operands()))
            a = normal(3, 4, seed=0, dtype=torch.float32).requires_grad_()
            results[f"{face} autocast gradient"] = torch.autograd.grad(matmul(a, b.float(), activation="gelu").sum(), a)


def gradients(results: Results) -> None:
    import tileon_ops

    for face, matmul in (("op", torch.ops.tileon.matmul), ("function", tileon_ops.matmul)):
        for activation in ACTIVATIONS:
            for slope in (0.3, -0.5) if activation == "leaky_relu" else (0.3,):
                for shape_a, shape_b in SHAPES:
                    tensors = leaves(shape_a, shape_b)
                    y = matmul(*tensors, activation=activation, slope=slope)
                    first = torch.autograd.grad(y.square().sum(), tensors, create_graph=True)
                    key = f"{face} {activation} {slope} {shape_a}"
                    results[f"{key} gradient"] = first
                    squares = torch.stack([g.square().sum() for g in first])
                    results[f"{key} gradient twice"] = torch.autograd.grad(squares.sum(), tensors)
            for which in range(3):
                tensors = operands()
                tensors[which].requires_grad_()
                y = matmul(*tensors, activation=activation)
                results[f"{face} {activation} gradient of {which}"] = torch.autograd.grad(y.sum(), tensors[which])
        a, b, bias = (t.bfloat16().requires_grad_() for t in operands())
        y = matmul(a, b.t().contiguous().t(), bias, activation="silu")
        results[f"{face} bfloat16 gradient"] = torch.autograd.grad(y.sum(), (a, b, bias))
        results[f"{face} fp8 bias gradient"] = torch.autograd.grad(
            matmul(a.detach().to(E4M3), b.detach().to(E4M3), bias, activation="gelu", out_dtype=torch.bfloat16).sum(),
            bias,
        )
        a = normal(3, 3, seed=0).to(E4M3).requires_grad_()
        results[f"{face} fp8 operand"] = refusal(matmul, a, a.detach())
        a, b, _ = leaves()
        results[f"{face} allow_tf32"] = torch.autograd.grad(matmul(a.float(), b.float(), allow_tf32=True).sum(), (a, b))


def transforms(results: Results) -> None:
    """Of torch.func and forward mode."""
    from torch import func

    import tileon_ops

    for face, matmul in (("op", torch.ops.tileon.matmul), ("function", tileon_ops.matmul)):
        for activation in ("none", "gelu", "leaky_relu"):

            def f(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
                y: Tensor = matmul(a, b, bias, activation=activation, slope=-0.5)  # noqa: B023
                return y.square().sum()

            tensors = tuple(operands())
            tangents = tuple(t + 1 for t in tensors)
            stacked = tuple(torch.stack([t, t + 1]) for t in tensors)
            key = f"{face} {activation}"
            results[f"{key} grad"] = func.grad(f, (0, 1, 2))(*tensors)
            results[f"{key} jvp"] = func.jvp(f, tensors, tangents)
            results[f"{key} hessian"] = func.hessian(f, (0, 1))(*tensors)
            results[f"{key} jacrev twice"] = func.jacrev(func.jacrev(f))(*tensors)
            results[f"{key} vmap"] = func.vmap(f)(*stacked)
            results[f"{key} vmap of grad"] = func.vmap(func.grad(f, (0, 1, 2)))(*stacked)
            results[f"{key} grad of vmap"] = func.grad(lambda *t: func.vmap(f)(*t).sum(), (0, 2))(*stacked)
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(t, tangent) for t, tangent in zip(tensors, tangents, strict=True)]
                results[f"{key} dual numbers"] = forward_ad.unpack_dual(f(*duals)).tangent
        a, b, bias = leaves()
        y = matmul(a, b, bias, activation="gelu")
        with forward_ad.dual_level():  # forward over a backward pass that was recorded outside
            grad = forward_ad.make_dual(torch.ones_like(y), normal(3, 5, seed=7))
            (of_a,) = torch.autograd.grad(y, a, grad)
            results[f"{face} tangent of a gradient"] = forward_ad.unpack_dual(of_a).tangent


def writes(results: Results) -> None:
    import tileon_ops

    ops = torch.ops.tileon
    a, b, bias = operands()
    out = torch.zeros(5, 3, dtype=torch.float64).t()
    version = out._version
    ops.matmul.out(a, b, bias, activation="relu", out=out)
    results["out"] = out.clone()
    results["out was counted"] = out._version > version
    assert tileon_ops.matmul(a, b, out=out) is out
    results["out of the function"] = out.clone()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ops.matmul.out(a.float(), b.float(), out=(wide := torch.zeros(3, 5)))
    results["out under autocast"] = wide
    version = out._version
    with torch.inference_mode():
        ops.matmul.out(a, b, out=out)
    results["out in inference mode was counted"] = out._version > version
    for name, arguments, options in (
        ("a requires grad", [leaves()[0], b], {"out": out}),
        ("out requires grad", [a, b], {"out": torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)}),
        ("out of another shape", [a, b], {"out": torch.zeros(3, 4, dtype=torch.float64)}),
        ("out of another dtype", [a, b], {"out": torch.zeros(3, 5)}),
        ("out overlaps itself", [a, b], {"out": torch.zeros(5, dtype=torch.float64).expand(3, 5)}),
        ("out overlaps bias", [a, b, out[1]], {"out": out}),
        ("bad operands and out", [a, a], {"out": wide}),
        ("no out", [a, b], {"out": None}),
    ):
        results[name] = refusal(ops.matmul.out, *arguments, **options)
    x = a.clone().requires_grad_()
    product = ops.matmul(x, b.requires_grad_(), activation="silu")
    ops.matmul.out(a.detach(), torch.zeros(4, 5, dtype=torch.float64), out=b.detach()[:3])
    results["a write to what was saved"] = refusal(product.sum().backward)


def block_scaled(results: Results) -> None:
    import tileon_ops

    x, w = normal(3, 64, seed=3, dtype=torch.float32), normal(5, 64, seed=4, dtype=torch.float32)
    linear = torch.nn.Linear(64, 5)
    linear.requires_grad_(False)
    linear.weight.copy_(w)
    linear.bias.copy_(w[:, 0])
    for form in ("mxfp8", "mxfp4", "nvfp4"):
        for weight_only in (False, True):
            layer = tileon_ops.BlockScaledLinear.from_linear(linear, form, weight_only=weight_only)
            what = f"{form} layer{', weight only' if weight_only else ''}"
            results[what] = layer(x), layer(x.bfloat16()), torch.func.vmap(layer)(x.half())
        a, scale_a = tileon_ops.quantize(x, form)
        b, scale_b = tileon_ops.quantize(w, form)
        results[f"{form} codes"] = a.view(torch.uint8), scale_a.view(torch.uint8)
        results[f"{form} numbers"] = tileon_ops.dequantize(a, scale_a, form)
        results[f"{form} product"] = tileon_ops.block_scaled_matmul(a, b, scale_a, scale_b, activation="gelu")
        results[f"{form} vmap"] = torch.func.vmap(tileon_ops.block_scaled_matmul, (0, None, 0, None))(
            torch.stack([a, a]), b, torch.stack([scale_a, scale_a]), scale_b
        )
        out = torch.zeros(3, 5, dtype=torch.float16)
        version = out._version
        torch.ops.tileon.block_scaled_matmul.out(a, b, scale_a, scale_b, out=out)
        results[f"{form} out"], results[f"{form} out was counted"] = out, out._version > version
        results[f"{form} packed"] = tileon_ops.pack_scales(tileon_ops.unpack_scales(scale_a, 3, 2)).view(torch.uint8)
    bias = torch.zeros(5, requires_grad=True)
    of_bias = {"bias": bias, "out": out}
    results["x requires grad"] = refusal(tileon_ops.quantize, x.clone().requires_grad_(), "mxfp8")
    results["bias requires grad"] = refusal(tileon_ops.block_scaled_matmul, a, b, scale_a, scale_b, bias)
    results["bias of out requires grad"] = refusal(
        torch.ops.tileon.block_scaled_matmul.out, a, b, scale_a, scale_b, **of_bias
    )
    results["out overlaps a"] = refusal(
        torch.ops.tileon.block_scaled_matmul.out, a, b, scale_a, scale_b, out=a.view(torch.float16)[:, :5]
    )
    with torch.no_grad():
        results["bias where nothing is recorded"] = tileon_ops.block_scaled_matmul(a, b, scale_a, scale_b, bias)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        results["x has a tangent"] = refusal(tileon_ops.quantize, dual, "mxfp8")


def weight_only(results: Results) -> None:
    """block_scaled_matmul of a 16-bit `a`: its gradients of both orders, torch.func, forward mode, autocast, `out`."""
    from torch import func

    import tileon_ops

    op = torch.ops.tileon.block_scaled_matmul
    b, scale = tileon_ops.quantize(normal(5, 64, seed=4, dtype=torch.float32), "mxfp8")
    factor = torch.tensor([0.125, 0.25, 0.5])[:, None]
    tensors = normal(3, 64, seed=3, dtype=torch.bfloat16), normal(5, seed=5, dtype=torch.float32)
    tangents = tuple(torch.ones_like(t) for t in tensors)
    for activation, out_dtype in (("none", None), ("relu", torch.float16), ("gelu", torch.float32)):

        def f(a: Tensor, bias: Tensor) -> Tensor:
            y: Tensor = op(a, b, None, scale, bias, factor, activation=activation, out_dtype=out_dtype)  # noqa: B023
            return y.float().square().sum()

        key = f"weight only {activation}"
        a, bias = (t.clone().requires_grad_() for t in tensors)
        first = torch.autograd.grad(f(a, bias), (a, bias), create_graph=True)
        results[f"{key} gradient"] = first
        squares = torch.stack([g.float().square().sum() for g in first])
        results[f"{key} gradient twice"] = torch.autograd.grad(squares.sum(), (a, bias))
        for which in ((a, bias.detach()), (a.detach(), bias)):
            results[f"{key} gradient of {len(which[0].shape)} {which[0].requires_grad}"] = torch.autograd.grad(
                f(*which), [t for t in which if t.requires_grad]
            )
        results[f"{key} rounded grad"] = func.grad(f, (0, 1))(*tensors)
        results[f"{key} rounded jvp"] = func.jvp(f, tensors, tangents)
        results[f"{key} rounded vmap of grad"] = func.vmap(func.grad(f, (0, 1)), (0, None))(
            torch.stack([tensors[0], tensors[0] + 1]), tensors[1]
        )
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, tangent) for t, tangent in zip(tensors, tangents, strict=True)]
            results[f"{key} rounded dual numbers"] = forward_ad.unpack_dual(f(*duals)).tangent
    y = op(a, b, None, scale, bias)
    with forward_ad.dual_level():  # forward over a backward pass that was recorded outside
        grad = forward_ad.make_dual(torch.ones_like(y), normal(3, 5, seed=7, dtype=torch.bfloat16))
        (of_a,) = torch.autograd.grad(y, a, grad)
        results["weight only rounded tangent of a gradient"] = forward_ad.unpack_dual(of_a).tangent
    with torch.autocast("cpu", dtype=torch.float16):
        results["weight only autocast"] = op(tensors[0].float(), b, None, scale, tensors[1].half())
        leaf = tensors[0].float().requires_grad_()
        results["weight only autocast gradient"] = torch.autograd.grad(op(leaf, b, None, scale).sum(), leaf)
    out = torch.zeros(3, 5, dtype=torch.bfloat16)
    op.out(tensors[0], b, None, scale, out=out)
    results["weight only out"] = out
    results["weight only out requires grad"] = refusal(op.out, a, b, None, scale, out=out)
    results["weight only scale requires grad"] = refusal(op, a, b, None, scale, None, torch.ones(1).requires_grad_())
    with torch.no_grad():
        results["weight only no_grad"] = op(a, b, None, scale, bias)


def compiled(results: Results) -> None:
    import tileon_ops

    def step(tensors: list[Tensor], out: Tensor) -> Tensor:
        a, b, bias = tensors
        hidden = tileon_ops.matmul(a, b, bias, activation="gelu")
        torch.ops.tileon.matmul.out(a.detach(), b.detach(), out=out)
        return torch.ops.tileon.matmul(hidden, b.t()).square().sum()

    run = torch.compile(step, backend="aot_eager", fullgraph=True)
    for rows in (3, 7):
        tensors, out = leaves((rows, 4), (4, 5)), torch.zeros(rows, 5, dtype=torch.float64)
        loss: Tensor = run(tensors, out)
        results[f"compiled {rows}"] = torch.autograd.grad(loss, tensors), out


def main() -> None:
    path, *names = sys.argv[1:]
    results: Results = {"warnings": import_without(names)}
    for part in (products, gradients, transforms, writes, block_scaled, weight_only, compiled):
        part(results)
    torch.save(results, path)


if __name__ == "__main__":
    main()
