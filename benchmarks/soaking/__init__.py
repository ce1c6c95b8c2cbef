"""The soak test of benchmarks/soak.py: what is drawn, what must come of it, and who runs it."""
