"""The embedding that is always sharded."""

from __future__ import annotations

import keras


@keras.saving.register_keras_serializable(package="tfdist")
class ShardedEmbedding(keras.layers.Embedding):
    """`keras.layers.Embedding` of which each worker has some rows; on one worker it is that.

    Each of N workers has `rows / N` rows and the optimizer's state beside them. A lookup asks the owners of the rows,
    and all workers take part in each: in steps of `fit`, `evaluate` and `predict` they do. Numbers, and files that are
    saved, are those of one device. See docs/embeddings.md.

    Args:
        input_dim: Rows of the table; at least as many as workers.
        output_dim: Numbers of a row.
        embeddings_initializer: See `keras.layers.Embedding`. Keras's random initializers, with an int for a seed or
            none, make each worker's rows alone; others make the whole table on each worker for a moment.
        embeddings_regularizer: None, or L1, L2 and their sum.
        embeddings_constraint: None, NonNeg, or a norm along axis 1, which is of each row.
        mask_zero: Whether id 0 is padding.
        weights: A whole table, or a list with one, to begin with.
        **kwargs: See `keras.layers.Layer`.

    Inputs: integers of any shape from 0 to `input_dim - 1`. Outputs: `[*shape, output_dim]`, of the compute dtype.

    Raises:
        UsageError: There are more workers than rows, or workers make it of different sizes.
        UnsupportedError: A worker has several devices; LoRA or quantization is asked for; a regularizer or a constraint
            needs all rows at once.

    Example:
        ```python
        items = tfdist.layers.ShardedEmbedding(20_000_000, 32, mask_zero=True)
        ```
    """

    is_always_sharded = True
