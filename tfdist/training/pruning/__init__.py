"""Pruning by magnitude: weights, N of each M of them, or whole channels.

`sparsity` says what is pruned and when; it loads no TensorFlow. `prunable_layers` finds the layers, `channel_graph`
where a channel goes, `masks` decides which weights of a layer stay, and `pruning_callback` is the callback of a `fit`;
`channel_removal` makes layers smaller afterwards.
"""
