"""Random numbers in a replica's step: its rows of what one device would draw for the global batch.

All replicas draw with the same seeds. A draw with a size of the batch takes the rows that belong to the replica's; a
draw of a fixed shape is the same on every replica.

- `seeds`: the seed of a draw, the same on every replica, and the loops and branches where it could not be
- `draw_sizes`: which size of a draw is that of the batch, also where `keras.ops.shape` gives a plain number
- `draws`: the functions of `keras.random`; `stateless_draws`: the operations below them, and below
  `tf.random.stateless_*`
- `unseeded_draws`, `seeded_draws`: `tf.random.normal` and its kin, of which no particular numbers are expected, or
  those of a script's seeds
- `generator_draws`: a `tf.random.Generator`
- `python_draws`: random numbers of NumPy and Python, which replicas cannot share
"""
