"""TensorFlow Datasets, as they were prepared: their TFRecord files are read where they lie, by their own features.

`prepared_dataset` finds a dataset and its files, `tfds_files` is the module of the format, and `tfds_samples` makes
tensors of the records.
"""
