"""Arrays in files of weights, read and written piece by piece.

- `stored_values`: values as they lie in a file, of which a shard may be read
- `late_arrays`: arrays that are put together only when they are written
"""
