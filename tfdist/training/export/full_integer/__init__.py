"""LiteRT whose weights and activations are 8-bit integers, as `tfdist export --format litert-int8` makes it.

A `calibration_request` says by which samples; `calibration_samples` reads them, and `int8_writer` writes the file. What
that computes is judged by the metrics of the run: `labelled_samples` are read, and `metric_comparison` compares.
"""
