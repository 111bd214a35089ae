"""LiteRT whose weights and activations are integers, as `tfdist export --format litert-int8` makes it.

A `calibration_request` says by which samples; `calibration_samples` reads them, and `integer_writer` writes the file,
of layers in forms that it can have in integers. What that computes is judged by the metrics of the run:
`labelled_samples` are read, and `metric_comparison` compares.
"""
