"""Repairs of saving, loading and downloading: one worker does it for all.

- `model_saving`: saved models and weights, which the chief writes; under s3://, too, where Keras cannot
- `hdf5_disk_file`: what HDF5 writes of them, on a disk that may be full
- `checkpoint_objects`: `tf.train.Checkpoint` and `tf.saved_model.save` of the chief alone
- `loaded_functions`: what was exported, called by a script
- `weights_copy`, `hdf5_memory_file`: a checkpoint's weights, copied at once and written later
- `arrays/`: values of a file of weights, before they are read
- `shard_copy`, `hdf5_sparse_file`: the same where each worker writes its shard; `weights_walk` says what is where
- `training_state`: the variables of a checkpoint that differ from replica to replica
- `quantized_layers`: what the file of a quantized model lacks
- `downloads`: `keras.utils.get_file`, one worker of a machine at a time
"""
