"""Pruning by magnitude: weights, N of each M of them, or whole channels.

`structure` and `sparsity_schedule` say what is pruned and when, `magnitude_masks` which weights: none of them loads
TensorFlow. `prunable_layers` finds the layers, `channel_graph` where a channel goes, `mask_group` keeps the masks of a
layer, and `pruning_callback` is the callback of a `fit`; `channel_removal` makes layers smaller afterwards.
"""
