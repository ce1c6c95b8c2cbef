"""`tileon_ops.convert`: what a model holds, what each layer becomes or why it stays, the replacement, the report."""
