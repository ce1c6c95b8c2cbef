"""QuantizedTensor: what belongs together stays together, in products, in files and on other devices."""

from __future__ import annotations

import io
import pathlib
import pickle

import pytest
import torch

import tileon_ops
from tileon_ops import QuantizedTensor

FORMATS = [
    "mxfp8",
    "mxfp4",
    "nvfp4",
    "fp8_tensor",
    "fp8_row",
    "fp8_1x128",
    "fp8_128x128",
    "int8_row",
    "int8_tensor",
]
each_format = pytest.mark.parametrize("name", FORMATS)

torch.serialization.add_safe_globals([QuantizedTensor])


def made(name: str, device: torch.device, rows: int = 40, k: int = 256) -> QuantizedTensor:
    x = torch.randn(rows, k, generator=torch.Generator().manual_seed(rows + k)).to(device)
    return QuantizedTensor.quantize(x, name)


def same(x: QuantizedTensor, y: QuantizedTensor) -> bool:
    mine, other = x.state_dict(), y.state_dict()
    as_bytes = {name: tensor.contiguous().view(torch.uint8) for name, tensor in mine.items() if tensor.dim() > 0}
    return (
        x.format == y.format
        and mine.keys() == other.keys()
        and all(torch.equal(each, other[name].contiguous().view(torch.uint8)) for name, each in as_bytes.items())
    )


@each_format
class TestOne:
    def test_shape_dtype_device_and_text(self, device: torch.device, name: str) -> None:
        q = made(name, device)
        assert q.shape == (40, 256)
        assert (q.dtype, q.device) == (q.data.dtype, q.data.device)
        assert repr(q).startswith(f"QuantizedTensor({name}, shape=(40, 256), data ")
        assert q.nbytes == sum(tensor.nbytes for tensor in q.state_dict().values())

    def test_dequantize_is_the_ops(self, device: torch.device, name: str) -> None:
        q = made(name, device)
        wanted = tileon_ops.dequantize(q.data, q.scale, name, q.global_scale, out_dtype=torch.bfloat16)
        assert torch.equal(q.dequantize(torch.bfloat16), wanted)
        assert q.dequantize().dtype == torch.float32

    def test_pickle_torch_save_and_state_dict(self, device: torch.device, name: str) -> None:
        q = made(name, device)
        assert same(pickle.loads(pickle.dumps(q)), q)
        file = io.BytesIO()
        torch.save(q, file)
        file.seek(0)
        assert same(torch.load(file), q)
        assert same(QuantizedTensor.from_state_dict(q.state_dict(), name), q)

    def test_safetensors(self, device: torch.device, name: str, tmp_path: pathlib.Path) -> None:
        files = pytest.importorskip("safetensors.torch")
        q = made(name, device)
        files.save_file({key: value.clone() for key, value in q.state_dict().items()}, tmp_path / "q.safetensors")
        assert same(QuantizedTensor.from_state_dict(files.load_file(tmp_path / "q.safetensors"), name).to(device), q)

    def test_to_another_device(self, name: str) -> None:
        q = made(name, torch.device("cpu"))
        assert q.to("meta").device.type == "meta"
        assert q.to("meta").shape == q.shape

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_product_of_a_weight_alone(self, device: torch.device, name: str, dtype: torch.dtype) -> None:
        q = made(name, device)
        x = torch.randn(7, 256, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)
        wanted = tileon_ops.block_scaled_matmul(x, q.data, None, q.scale, None, q.global_scale)
        assert torch.equal(tileon_ops.block_scaled_matmul(x, q), wanted)

    def test_product_of_two(self, device: torch.device, name: str) -> None:
        a, b = made(name, device, rows=9), made(name, device)
        actual = tileon_ops.block_scaled_matmul(a, b, activation="relu", out_dtype=torch.float32)
        wanted = torch.relu(a.dequantize().double() @ b.dequantize().double().t())
        magnitudes = a.dequantize().double().abs() @ b.dequantize().double().abs().t()
        bound = 2.0**-12 if name.startswith("fp8") else 2.0**-20  # of fp8: docs/fp8_error.md
        assert bool(((actual.double() - wanted).abs() <= bound * magnitudes).all())


class TestTogether:
    def test_transposed(self, device: torch.device) -> None:
        for name in ("fp8_tensor", "fp8_128x128", "int8_tensor"):
            q = made(name, device, rows=200, k=300)
            assert q.t().shape == (300, 200)
            assert torch.equal(q.t().dequantize(), q.dequantize().t())

    def test_transposed_of_rows_is_refused(self, device: torch.device) -> None:
        with pytest.raises(RuntimeError, match=r"QuantizedTensor: `t\(\)` is for fp8_tensor.*mxfp8 run along k"):
            made("mxfp8", device).t()

    def test_what_does_not_fit_is_refused(self, device: torch.device) -> None:
        q = made("mxfp8", device)
        with pytest.raises(RuntimeError, match="QuantizedTensor: `scale` must have the shape"):
            QuantizedTensor(q.data[:20], q.scale[:, :1], "mxfp8")
        with pytest.raises(RuntimeError, match="QuantizedTensor: `data` must be"):
            QuantizedTensor(q.data, q.scale, "mxfp4")
        with pytest.raises(RuntimeError, match="QuantizedTensor: `format` must be one of"):
            QuantizedTensor(q.data, q.scale, "fp7")
        with pytest.raises(RuntimeError, match="QuantizedTensor: `global_scale` is for nvfp4 alone"):
            QuantizedTensor(q.data, q.scale, "mxfp8", torch.ones((), device=device))
        with pytest.raises(RuntimeError, match="QuantizedTensor: `data` must be a tensor, got None"):
            QuantizedTensor(None, q.scale, "mxfp8")  # type: ignore[arg-type]

    def test_a_scale_beside_a_quantized_tensor_is_refused(self, device: torch.device) -> None:
        q = made("mxfp8", device)
        with pytest.raises(RuntimeError, match="`scale_b` must be None where `b` is a QuantizedTensor"):
            tileon_ops.block_scaled_matmul(q, q, None, q.scale)

    def test_global_scales_are_multiplied(self, device: torch.device) -> None:
        a, b = made("nvfp4", device, rows=9), made("nvfp4", device)
        factor = torch.tensor(3.0, device=device)
        wanted = tileon_ops.block_scaled_matmul(
            a.data, b.data, a.scale, b.scale, None, a.global_scale * b.global_scale * factor
        )
        assert torch.equal(tileon_ops.block_scaled_matmul(a, b, global_scale=factor), wanted)

    def test_a_global_scale_for_each_row(self, device: torch.device) -> None:
        x = torch.randn(9, 256, generator=torch.Generator().manual_seed(2)).to(device)
        a, b = QuantizedTensor.quantize(x, "nvfp4", per_row=True), made("nvfp4", device)
        assert a.global_scale is not None
        assert a.global_scale.shape == (9, 1)
        actual = tileon_ops.block_scaled_matmul(a, b, out_dtype=torch.float32)
        wanted = a.dequantize().double() @ b.dequantize().double().t()
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-4, atol=1e-3)
        with pytest.raises(RuntimeError, match="global scale of `b` must be one element"):
            tileon_ops.block_scaled_matmul(b, a)
