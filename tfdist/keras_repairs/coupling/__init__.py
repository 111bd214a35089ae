"""Couplings of the rows of a batch: the result for one sample depends on the others, which other replicas hold.

Every replica computes it on the rows of all replicas, as one replica would, and gets the gradients of its own rows.

- `gather_rows`: the rows of all replicas on every replica; `gathered_batch`: the same with gradients, and each
  replica's own rows of what is computed; `output_rows`: which outputs have rows
- `declarations`: what the user says of losses, functions and layers
- `traced_calls`: what a trace for batches of any size shows of the draws, gathers and updates of a call; `call_scope`:
  what is known of the one that runs, and the losses that it adds
- `trials/`: the user's losses, layers, models and steps, tried out on made-up values
- `batch_branches`: the branches and loops of theirs that the values of a batch decide, found in the graph;
  `batch_limits`: limits there of what is computed from all of the batch; `eager_numbers`: what code that runs eagerly
  takes out of tensors, given to it in such a graph
- `custom_gradients`: the user's `tf.custom_gradient`s, tried out where a step takes their gradients
- `loss_treatment`: what follows of all that for a loss, which losses of Keras couple rows, and labels that are
  converted by what all of a batch are
- `own_steps`: the user's `train_step` and its kin, shared out in the cheapest way that is exact; `predict_step`, which
  is gathered if it couples rows
- `global_batch`: layers and steps that every replica runs whole, on the global batch
- `layer_calls`: layers, and models that couple rows between their layers, are called with the rows of all replicas;
  `shown_of_layers`: what trials and traces of a layer have shown
"""
