"""A config to start with, made from data: `tfdist config init`.

`data_kind` tells which format the data has, `starter_data` looks at it, at TFRecord files by their `example_features`,
at Parquet files by their `parquet_table` and at npz files by the names of their arrays, and `starter_config` writes the
config of what was found and of the kind of its labels.
"""
