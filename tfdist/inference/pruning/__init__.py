"""Prunings, as `tfdist prune` starts them: a training from a config with `tfdist.Pruning` among its callbacks.

`pruning_job` runs it, and measures. `fine_tuning_config` says what is trained, `fine_tuning_run` where, and whether it
goes on with what an earlier start has done; `pruning_table` is what is printed of the model before and after. Nothing
here loads TensorFlow.
"""
