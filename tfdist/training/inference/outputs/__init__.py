"""Formats of predictions: each writes the parts of a prediction as one file.

`output_formats` knows all of them: `npz_output`, `tfrecord_output`, `csv_output` and `parquet_output`.
"""
