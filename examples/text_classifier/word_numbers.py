"""The words of a text as numbers: by hashing, so that there is no vocabulary to build first."""

import tensorflow as tf

WORDS, LENGTH = 2_000, 24


def vectorize(texts: tf.Tensor) -> tf.Tensor:
    """From strings [k] to word numbers, int64 [k, LENGTH]; 0 fills up short texts."""
    words = tf.strings.split(tf.strings.lower(texts))
    numbers = tf.strings.to_hash_bucket_fast(words.flat_values, WORDS - 1) + 1
    return words.with_flat_values(numbers).to_tensor(shape=[None, LENGTH])
