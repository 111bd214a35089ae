"""Steps of the tf.data pipeline, in the order in which a batch passes through them.

`sample_indices`: which samples are in each batch. `sample_batches`: reading them,
by `python_functions` that TensorFlow calls. `record_parser`: parsing them. `sample_checks`: looking for NaNs and wrong
labels. `prefetch`: how much is read ahead.
"""
