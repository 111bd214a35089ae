"""Layers of tfdist for models that one device does not hold: `ShardedEmbedding`."""

from tfdist.keras_repairs.sharded_embeddings.sharded_embedding import ShardedEmbedding

__all__ = ["ShardedEmbedding"]
