"""Variables of a strategy.

- `variables_in_steps`: those that are made while a replica runs, in the scope of the strategy
- `initial_values`: what they begin with, the chief's on all workers
- `variable_conversions`: as numbers and arrays
"""
