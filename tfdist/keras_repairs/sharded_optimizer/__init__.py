"""Optimizers of which each worker holds a part: ZeRO-1 and ZeRO-2 (Rajbhandari et al., 2020, arXiv:1910.02054).

The optimizer is Keras's own and unmodified. It is built for the model's variables, and its state for each of them is
made for this worker's part of the variable from the start. A step gives it parts of the gradients and of the variables,
and puts together what it has changed:

- `cut_kinds`: which optimizers update element by element, which stay whole a variable, and which are refused
- `optimizer_parts`: what this worker updates of each variable
- `state_sizes`: what an optimizer will keep, and whether there is memory for it
- `slot_making`: repairs of how an optimizer makes its state and finds it
- `sharded_update`: a step; `clipping` by norms of which each worker has a part; `averages` of weights
"""
