"""The first step of every run is checked on its own model and data, before it is made.

What one device computes of a few rows of the first batch is compared with what the replicas compute of them, and all is
put back as it was. If they differ by more than rounding the step runs whole on every replica from then on.

- `few_rows`: a first batch with a few rows for each replica
- `variable_values`: what a step may change, read, written and compared
- `rounding_bounds`: what of the differences is more than rounding
- `step_check`: the check of a step; `checked_step`: around the functions that Keras calls, unless a step has effects
"""
