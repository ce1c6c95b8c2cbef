"""What several measurements share: cases, timing, result files."""
