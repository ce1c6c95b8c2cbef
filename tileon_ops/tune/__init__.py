"""The tuner: which config computes a product fastest, measured and remembered.

This imports nothing: `tileon_ops.info` reads the cache where torch cannot be imported. The attribute `tileon_ops.tune`
is the function of tuning.py; `python -m tileon_ops.tune` is its command.
"""
