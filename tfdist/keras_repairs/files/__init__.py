"""Repairs of saving, loading and downloading: one worker does it for all.

- `model_saving`: saved models and weights, which the chief writes; under s3://, too, where Keras cannot
- `hdf5_files`: what HDF5 writes of them, on a disk that may be full or in memory
- `checkpoint_objects`: `tf.train.Checkpoint` and `tf.saved_model.save` of the chief alone; what was exported, called by
  a script
- `weights_copy`: a checkpoint's weights, copied at once and written later, and which variable is stored where
- `shard_copy`: the same where each worker writes its shard
- `training_state`: the variables of a checkpoint that differ from replica to replica
- `quantized_layers`: what the file of a quantized model lacks
- `downloads`: `keras.utils.get_file`, one worker of a machine at a time
"""
