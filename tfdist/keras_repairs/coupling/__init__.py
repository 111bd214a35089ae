"""What couples the rows of a batch: the result for one sample depends on the others, which other replicas hold.

Every replica computes it on the rows of all replicas, as one replica would, and gets the gradients of its own rows.

- `gather_rows`: the rows of all replicas on every replica; `whole_batch`: the same with gradients
- `declarations`, `declaring`: what the user says of losses, functions and metrics
- `coupled_losses`: the losses of Keras that couple rows
- `trial_scope`, `made_up_labels`, `part_comparison`, `loss_trial`: the user's losses, tried out on made-up values
- `loss_treatment`: what follows of all that for a loss
- `hinge_labels`: labels that are converted when those of the whole batch are binary
"""
