"""Repairs of Keras under a strategy of several replicas; the only package that touches Keras internals.

`install` replaces the functions of Keras and TensorFlow that `registry` lists, with `random_repairs` as the part about
random numbers, once `keras_versions` has looked whether they, and those of `assumed_functions`, are what the repairs
were written for: `fingerprints` has them, of each tested version. What the tables list is a `keras_function`. A
`repair` takes the original as its argument and falls back to it where one replica trains. Repairs stand in the room of
their subject; in the order of a step:

- `base/`: the foundation of the others: the replica's step, the state of a `fit`
- `model_checks/`: what of a model decides whether replicas can be exact, and what is refused
- `inputs/`: the data of `fit`: one order on all workers, each global batch cut once, a position to resume from
- `loop/`: how steps run over the data, several in one execution, and who is notified
- `first_step/`: the check of a run's first steps against what one device computes
- `coupling/`: what takes a sample by the others of its batch, computed on the rows of all replicas
- `draw_slices/`: parts of the random numbers that one device draws
- `random_numbers/`: a replica's rows of what one replica would draw
- `forward/`: layers, losses and metrics of a replica's piece of the batch
- `distillation/`: a teacher's part of the loss of a `fit`
- `gradient_sums`: gradients as the replicas sum them, whatever cuts or updates their variables
- `optimizer/`: gradients reduced once, accumulated, and applied by each replica
- `sharding_policies/`: what workers have shards of, in words that do not say how
- `sharded_optimizer/`: optimizers of which each worker holds a shard
- `sharded_parameters/`: weights of which each worker holds a shard, put together where they are read
- `tensor_parallel/`: layers that compute with slices of their weights
- `recomputation`: activations that are computed again in the backward pass
- `sharded_embeddings/`: embedding tables of which each worker has some rows
- `writes/`: what a step writes besides what it returns, once and of the global batch
- `callbacks/`: which run where, and how all workers follow the chief's decisions
- `files/`: what is saved, loaded and downloaded
"""

from __future__ import annotations

from tfdist.keras_repairs import keras_versions

with keras_versions.importing():
    from tfdist.keras_repairs.coupling.declarations import DeclaredFunction, DeclaredLoss
    from tfdist.keras_repairs.coupling.global_batch import GatheredLayer
    from tfdist.keras_repairs.forward.gathering import GatheredMetric
    from tfdist.keras_repairs.install import install
    from tfdist.keras_repairs.sharded_embeddings.lazy_adam import LazyAdam
    from tfdist.keras_repairs.sharded_embeddings.sharded_embedding import ShardedEmbedding

# They are registered with Keras where they are imported; a model that was saved with them must load in any script.
__all__ = [
    "DeclaredFunction",
    "DeclaredLoss",
    "GatheredLayer",
    "GatheredMetric",
    "LazyAdam",
    "ShardedEmbedding",
    "install",
]
