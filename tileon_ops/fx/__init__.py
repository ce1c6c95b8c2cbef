"""Products in FX graphs, with bias and activation, as single calls of `matmul`."""
