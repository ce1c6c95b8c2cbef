"""Pages and pictures made of the result files."""
