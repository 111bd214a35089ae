"""Weights of which each worker stores a shard: ZeRO-3 (Rajbhandari et al., 2020, arXiv:1910.02054), FSDP in PyTorch.

A weight is put together where it is read, so that whatever reads it is right; its gradient is summed into shards where
it is complete. That no more than a layer is full at a time is a matter of when: a layer's weights wait for its inputs,
or where they are sent ahead for those of the layer before, and the backward pass has them put together again.

- `cut_variable`: a Keras variable of which this worker holds a shard, and how weights of layers become ones
- `parameter_shard`: what a worker stores of a weight; `flat_weights`: a range of its elements; `axis_weights`: a slice
  along an axis
- `shared_slices`: a slice that several workers have, which share its gradient and its state out
- `model_parallel`: the mesh and layouts of a script's `keras.distribution.ModelParallel`, which say along which axis
- `tensor_layouts`: those that `--tensor` makes, where a script has none
- `stored_policy`: how an optimizer updates that
- `gathered_reads`: the full weight where it is read, and its gradient
- `full_reads`: which weights a graph reads, in their order, and what each of them waits for
- `layer_scopes`: which layer reads, what its weights wait for, and what it has read already
- `second_gathers`: the backward pass reads a weight that is put together again
- `tape_calls`: what tapes take gradients by, and the sums of those that they take eagerly, all in one order
- `summed_gradients`: a tape returns shards of sums, which an optimizer takes as they are
"""
