"""The sharing of a model and of its optimizer by the workers, in words that do not say how: for all who train and save.

A variable is sharded where each worker stores a shard of it, and an optimizer where each worker updates shards. What
these shards are, and how they become full values again, is known to the implementations alone: `sharded_optimizer` has
those of ZeRO-1 and 2, `sharded_parameters` that of ZeRO-3, `sharded_embeddings` that of tables.

- `shards`: what this worker stores of a variable
- `variable_policy`: how the workers share the training of one variable
- `optimizer_policy`: which policies an optimizer's variables have, and the state that it keeps beside them
- `full_state`: full values of all that is sharded, where a model is saved
- `loaded_state`: shards of an optimizer's state, where it is loaded
"""
