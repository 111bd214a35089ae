"""Steps of the tf.data pipeline, in the order in which a batch passes through them.

`sample_indices`: which samples are in each batch. `sample_batches`: reading them, by
`python_functions` that TensorFlow calls. `record_parser`: parsing them. `augmentation` and `sample_checks`: changing
them, and looking for NaNs and wrong labels. `class_weights`: weighting them by their class. `companions`: what a
second source has of them. `prefetch`: how much is
read ahead.
"""
