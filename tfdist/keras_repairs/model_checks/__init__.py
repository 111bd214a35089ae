"""Checks what in a model, and in the script around it, decides whether and how replicas give the numbers of one.

- `refusals`: models that are refused, and what a script says by `keras.distribution`
- `described_layouts`: layouts of weights in words and numbers, for plans and for the log
- `sent_rows`: what layers that compute with slices send of rows, for plans
- `own_loops`: loops with `strategy.run` in which replicas take means over their own samples
- `model_facts`: all layers of a model, which BatchNormalization takes the statistics of the global batch, which steps
  are the user's own code, and what explains afterwards why numbers differ
"""
