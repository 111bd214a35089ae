"""From each replica's gradients to the same update on all of them.

- `gradient_reduction`: gradients summed over the replicas, before they are clipped, also those that a script applies
  outside of the replicas
- `gradient_accumulation`: summed over batches first, and what of that is saved and loaded
- `variable_updates`: each replica updates its own copy
- `apply_scope`: what holds while gradients are applied
- `sharded_step`: the same where each worker has a shard of the optimizer
- `clipping` by norms of the full gradients, `averages` of weights, and what they begin with
- `masked_updates`: updates of variables of which a mask leaves a part alone
"""
