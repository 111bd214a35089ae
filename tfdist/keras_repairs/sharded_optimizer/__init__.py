"""Optimizers of which each worker holds a shard: ZeRO-1 and ZeRO-2 (Rajbhandari et al., 2020, arXiv:1910.02054).

The optimizer is Keras's own and unmodified. It is built for the model's variables, and its state for each of them is
made for this worker's shard of the variable from the start.

- `cut_kinds`: which optimizers update element by element, which stay full a variable, and which are refused
- `policy_choice`: which of the `variable_policies` each variable has
- `state_sizes`: what an optimizer will keep, and whether there is memory for it
- `slot_making`: repairs of how an optimizer makes its state and finds it
"""
