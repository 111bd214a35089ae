"""Formats of predictions: each writes the parts of a prediction as one file.

`step_outputs` names the outputs of a `predict_step`, and `output_formats` has them as columns, and knows what writes
these: `npz_output`, `csv_output`, `parquet_output` and `tfrecord_output`, which also writes several files that with
their manifest are `kept_outputs`.
"""
