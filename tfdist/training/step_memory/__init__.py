"""Tells from its graph what a training step holds in memory: nothing is computed, and no weight is made.

`symbolic_step` builds the model and one step of a config as a graph, and follows the graph's tensors from where they
are made to where they are used last; `memory_worker` is the process in which `tfdist plan --memory` does so.
"""
