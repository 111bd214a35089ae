"""Optimizers of tfdist for tables of which a batch names few rows: `LazyAdam`."""

from tfdist.keras_repairs.sharded_embeddings.lazy_adam import LazyAdam

__all__ = ["LazyAdam"]
