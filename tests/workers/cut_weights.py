"""Runs a module or a script, with every weight cut that has two elements: `cut_weights MODULE ...` or `FILE.py ...`.

Weights of the models of tests are smaller than those that `--shard zero3` cuts.
"""

import dataclasses
import runpy
import sys

import tensorflow as tf

from tfdist.runtime.strategy_settings import settings_of


def main() -> None:
    settings = settings_of(tf.distribute.get_strategy())
    if settings.shard is not None:
        settings.shard = dataclasses.replace(settings.shard, whole_below=2)
    del sys.argv[0]
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
