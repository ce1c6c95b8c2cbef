"""Layers in the place of torch.nn.Linear, and the conversion of whole models."""
