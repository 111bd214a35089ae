"""Predictions, evaluations and quantizations, as `tfdist predict`, `tfdist evaluate` and `tfdist quantize` start them;
the workers' part is `training/inference` and `training/quantization`.

`model_choice` finds the model in a run directory or a file, `data_choice` the section of the data, and `output_choice`
the file to make. `inference_job` runs the workers, and `quantization_table` shows what came of a quantization.
`comparison_table` has what that and other tables say of a model before and after. `pruning/` fine-tunes a model while
it is pruned, and `export/` writes it for other runtimes. Nothing here loads TensorFlow.
"""
