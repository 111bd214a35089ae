"""Says what python gives a script, as one line of JSON, and ends with the exit code that it was told."""

import atexit
import json
import os
import sys

import beside
import keras
import tensorflow as tf


def annotated(x: int) -> None:
    """Its annotation is text where somebody else's `from __future__` reaches into the script."""


said = {
    "argv": sys.argv,
    "name": __name__,
    "file": __file__,
    "package": __package__ or "",
    "is_main": sys.modules["__main__"].__dict__ is globals(),
    "path": sys.path[0],
    "cwd": os.getcwd(),
    "stdin": sys.stdin.read(),
    "beside": beside.VALUE,
    "annotation": annotated.__annotations__["x"] is int,
    "replicas": tf.distribute.get_strategy().num_replicas_in_sync,
    "backend": keras.backend.backend(),
}


def last_words() -> None:
    print("last words of", sys.modules["__main__"].__dict__["said"]["name"], flush=True)


atexit.register(last_words)
print(json.dumps(said))
sys.exit(int(sys.argv[-1]))
