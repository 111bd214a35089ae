"""Gradients as the replicas sum them, whatever cuts or updates the variables that they are of.

- `gradient_sums`: sums of gradients over the replicas; `alike_gradients`: those of steps that run whole
- `slice_origins`: whether the slices of a gradient follow from the batch, or are the same on every replica
"""
