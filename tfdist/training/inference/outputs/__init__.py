"""Formats of predictions: each writes the parts of a prediction as one file.

`output_formats` knows all of them: `npz_output`, `tfrecord_output`, `csv_output` and `parquet_output`. `sharded_output`
writes several TFRecord files instead, which with their manifest are `kept_outputs`.
"""
