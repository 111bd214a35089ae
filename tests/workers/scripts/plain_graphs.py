"""Leaves graphs as they are traced: a script that traces many and runs each a few times imports it.

To optimize them takes half as long as to trace them. The slow tests do.
"""

import os

import tensorflow as tf

if not os.environ.get("TFDIST_SLOW_TESTS"):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
