"""Layouts in which checkpoints are published: what their configs may say, and how their tensors are read."""
