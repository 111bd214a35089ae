"""Slices of draws: a part of the random numbers that one device draws, for whoever has no use for the rest.

- `draw_slice`: a slice of a draw, by the counter of the generator
- `draw_scope`: what a draw knows of the code that it is in; draws that are recorded on a whole batch and replayed on
  its slices, where code is tried out
- `initial_values`: the first values of a worker's shard of a weight
"""
