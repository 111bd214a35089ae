"""Repairs of the loop that runs a model's steps over its data.

- `trainer`: the functions that Keras calls for each step, made of `step_execution`, which compiles a step, and
  `multi_step_execution`, which runs several at once where nobody looks between them
- `compilation`: whether XLA compiles a model's steps; `xla_step`: a step that it compiles with its sums
- `decorated_functions`: steps, and functions in them, that are decorated with `tf.function`
- `step_sizes`: steps that are traced for batches of any size
- `step_logs`: the logs of steps of one's own, also those that are no results of metrics
- `batch_logs`: the logs of batches over all replicas, where callbacks and progress bars are given them
- `unknown_size`: says where plain Keras counts a step too many
- `on_batch`, `predictions`: single batches; what `predict` returns on several replicas
- `fit_listeners`: notifies others of calls and executions
"""
