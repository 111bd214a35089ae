"""The writes of a step besides what it returns: summaries, prints, files, queues, tables, what its Python functions do.

One device writes once a step, what it computes of the global batch; and nothing where code is only tried out.

- `global_values`: what replicas write, made that of the global batch
- `writing_replica`: which replica writes it
- `write_operations`: the operations of TensorFlow that write, and those that take something away
- `write_functions`: functions of TensorFlow that come down to these, or to calls of Python
"""
