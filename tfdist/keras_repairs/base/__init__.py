"""The foundation of the other rooms; it imports none of them.

- `keras_differences`: what the supported versions of Keras do differently, where a repair does the same
- `attached_value`: how the repairs attach values to objects of Keras; `fit_state`: what is known of a model's `fit`;
  `model_optimizers`: which optimizers a model has
- `replica_step`, of `step_records`: one replica's step on its slice of the global batch, while it is traced;
  `batch_rows`: the rows of a batch, of which a replica without samples has one that counts nowhere
- `tensor_attributes`: what Keras finds behind tensors, kept where their rows are gathered or cut
- `nested_gradients`: gradients of gradients through what replicas compute together
- `thread_attributes`, `global_seeds`, of `spare_generators`: what Keras keeps for each thread, handed to the threads of
  the replicas; `tensorflow_seeds`, of `draw_streams`: seeds for TensorFlow's own random functions, which they share
- `variables` of a strategy: where they are made, what they begin with, as numbers; `stored_values`: values of a file of
  weights, before they are read; `strategy_reductions`: sums and gathers of it
- `size_origins`: where a size comes from, as the graph tells; `replica_copies`: each replica's copy of a variable
- `context_variables`: records that hold for the code inside of a `with` block; `loss_scope`: that of a loss
- `global_devices`: the devices of all workers, as `keras.distribution` lists them
- `warn_once`; `diverted_files`: where a run that is only rehearsed writes
"""
