"""The data of `fit`, `evaluate` and `predict`, from what a script gives to what a replica gets.

- `array_shuffle`: the order of arrays; `dataset_determinism`: whether a `tf.data.Dataset` has the same one again
- `same_data_check`: whether all workers were given the same data; `full_read_warnings`: what reading all of it costs
- `host_drawing`: which batches one worker of a host draws for all of it
- `own_shares`: batches that are each worker's own, as `keras.distribution` may say
- `class_weights`: weights of classes for a dataset that a script has distributed
- `data_adapters`: each global batch, cut into the replicas' pieces
- `epoch_iterator`: the batches of an epoch, and how many are left; `data_position`: where a `fit` stands in them
- `symbolic_build`: when models are built
"""
