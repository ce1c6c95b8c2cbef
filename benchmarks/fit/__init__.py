"""The sweeps over the tile table, and the fits of the cost models to them."""
