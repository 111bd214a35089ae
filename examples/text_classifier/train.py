"""Trains a text classifier on a file that is read line by line; README.md shows how to make one.

tfdist train --nproc 2 examples/text_classifier/train.py --file examples/text_classifier/reviews.txt
"""

import argparse
from pathlib import Path

import keras
import tensorflow as tf

import tfdist
from tfdist.models import text_classifier

WORDS, LENGTH = 20_000, 24

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--file", type=Path, default=Path(__file__).parent / "reviews.txt")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=1024)
args = parser.parse_args()


def vectorize(texts: tf.Tensor) -> tf.Tensor:
    """From strings [k] to word numbers, int64 [k, LENGTH]; 0 fills up short texts."""
    words = tf.strings.split(tf.strings.lower(texts))
    numbers = tf.strings.to_hash_bucket_fast(words.flat_values, WORDS - 1) + 1
    return words.with_flat_values(numbers).to_tensor(shape=[None, LENGTH])


keras.utils.set_random_seed(7)
strategy = tfdist.strategy()
with strategy.scope():
    model = text_classifier(vocabulary=WORDS, length=LENGTH, classes=2)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])

train = tfdist.data.text(args.file, vectorize, batch_size=args.batch_size, shuffle=True, seed=7, strategy=strategy)
history = model.fit(train, epochs=args.epochs, verbose=2)
if tfdist.is_chief():
    print(f"training accuracy {history.history['accuracy'][-1]:.4f}")
