"""What couples the rows of a batch: the result for one sample depends on the others, which other replicas hold.

Every replica computes it on the rows of all replicas, as one replica would, and gets the gradients of its own rows.

- `gather_rows`: the rows of all replicas on every replica; `whole_batch`: the same with gradients
- `coupled_losses`: the losses of Keras that couple rows, taken of the global batch
- `hinge_labels`: labels that are converted when those of the whole batch are binary
"""
