"""Predictions, evaluations and quantizations, as `tfdist predict`, `tfdist evaluate` and `tfdist quantize` start them;
the workers' part is `training/inference` and `training/quantization`.

`data_choice` finds the section of the data, and `output_choice` the file to make; the model is chosen by
`checkpoint/inspection`. `calibration_data` finds the samples by which an export or a quantization is calibrated, and
`quantization_calibration` to what they round weights. `inference_job` runs the workers, and `quantization_table` shows
what came of a quantization. `comparison_table` has what that and other tables say of a model before and after.
`pruning/` fine-tunes a model while it is pruned, and `export/` writes it for other runtimes. Nothing here loads
TensorFlow.
"""
