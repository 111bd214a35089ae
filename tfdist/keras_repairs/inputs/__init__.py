"""The data of `fit`, `evaluate` and `predict`, from what a script gives to what a replica gets.

- `array_shuffle`: the order of arrays
- `host_drawing`: whether all workers were given the same data, which batches one worker of a host draws for all of it,
  and what reading all of it costs
- `own_shares`: batches that are each worker's own, as `keras.distribution` may say
- `class_weights`: weights of classes for a dataset that a script has distributed
- `data_adapters`: each global batch, cut into the replicas' pieces
- `epoch_iterator`: the batches of an epoch, and how many are left; `data_position`: where a `fit` stands in them,
  and whether a `tf.data.Dataset` has the same order again
- `symbolic_build`: when models are built
"""
