"""The ops as Python functions: torch.matmul's shapes, `out=`, autocast, dtypes by name."""
