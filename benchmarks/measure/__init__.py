"""The measurements: one command a question."""
