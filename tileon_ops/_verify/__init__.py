"""`tileon_ops.verify`: every op against torch."""
