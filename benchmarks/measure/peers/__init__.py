"""Who computes a case: one function a provider."""
