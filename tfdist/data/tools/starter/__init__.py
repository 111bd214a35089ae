"""A config to start with, made from data: `tfdist config init`.

`data_kind` tells which format the data has, and what records and Parquet files have, `starter_data` looks at it, also
at npz files by the names of their arrays, and `starter_config` writes the
config of what was found and of the kind of its labels.
"""
