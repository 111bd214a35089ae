"""Gradients as the replicas sum them, whatever cuts or updates the variables that they are of.

- `gradient_sums`: sums of gradients over the replicas, and whether slices follow from the batch or are the same on all
- `alike_gradients`: those of steps that run whole
"""
