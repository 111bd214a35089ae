"""Activations that are computed again in the backward pass instead of kept: `keras.RematScope`, `keras.remat`.

A second trace of a call would draw other numbers, count losses twice and move averages twice. So nothing is traced
again: the backward pass reads copies of the operations that the call has left in the graph, the same bits.

- `recomputed_calls`: calls that Keras asks to be computed again, and when that begins
- `copied_operations`: the second computation, and who reads it
"""
