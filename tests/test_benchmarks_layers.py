"""The table of linear layers, made of layers.csv."""

from __future__ import annotations

import pathlib

from benchmark_files import HEAD

from benchmarks.subjects.layers import part

COLUMNS = "format,weight_only,m,n,k,provider,median_us"


def test_the_table_has_means_and_worst_cases_by_rows_and_by_size(tmp_path: pathlib.Path) -> None:
    (tmp_path / "layers.csv").write_text(
        HEAD
        + f"{COLUMNS}\n"
        + "mxfp4,True,1,8192,8192,tileon,1.0\nmxfp4,True,1,8192,8192,torch_bf16,1.0\n"
        + "mxfp4,True,32,8192,8192,tileon,1.0\nmxfp4,True,32,8192,8192,torch_bf16,4.0\n"
        + "mxfp4,True,512,8192,8192,tileon,2.0\nmxfp4,True,512,8192,8192,torch_bf16,1.0\n"
        + "mxfp4,True,1,2880,2880,tileon,2.0\nmxfp4,True,1,2880,2880,torch_bf16,3.0\n"
        + "mxfp8,False,33,8192,8192,tileon,5.0\nmxfp8,False,33,8192,8192,torch_bf16,4.0\n"
    )
    page = part(tmp_path)
    assert "| mxfp4 | weights | 8192 x 8192 | 2.00 (1.00) |  |  | 0.50 (0.50) |  |" in page
    assert "| mxfp4 | weights | 2880 x 2880 | 1.50 (1.50) |  |  |  |  |" in page
    assert "| mxfp8 | both | 8192 x 8192 |  | 0.80 (0.80) |  |  |  |" in page
    assert part(tmp_path / "nothing") == []
