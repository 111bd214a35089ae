"""Predictions, evaluations and quantizations, as `tfdist predict`, `tfdist evaluate` and `tfdist quantize` start them;
the workers' part is `training/inference` and `training/quantization`.

`data_choice` finds the section of the data, and `output_choice` the file to make; the model is chosen by
`checkpoint/inspection`. `calibration` finds the samples by which an export or a quantization is calibrated.
`inference_job` runs the workers. `fine_tuning` is the run in which a model is pruned: a training from a config with
`tfdist.Pruning` among its callbacks, whose directory lies beside the file to make, so that the same command goes on.
`quantization_table` and `pruning_table` show what came of it, with the `comparison_table` of a model before and after.

`export_job` has a process write a model for other runtimes, under another name, and gives it its own when it is whole
and the same as Keras; `export_table` is what is printed. Nothing here loads TensorFlow.
"""
