"""Embedding tables of which each worker holds some rows, with the numbers of one device.

A worker asks the owners of the rows that its samples name for their vectors, each row once, and sends them the
gradients; the owners update what they hold. Rows, and the optimizer's state beside them, are nowhere else.

- `embedding_layers`: repairs of `keras.layers.Embedding`: which of them are sharded, how they are built and called
- `sharded_embedding`: the layer that always is
- `table_variable`: a table as its model sees it, of which this worker has some rows, and what these begin as
- `row_lookup`: vectors of rows, with their gradients; `slice_exchange`: these gradients, on their way to the owners
- `row_penalties`: regularizers, as far as each worker can compute them for its rows
- `lazy_adam`: Adam that touches the rows of a batch alone, another optimizer
"""
