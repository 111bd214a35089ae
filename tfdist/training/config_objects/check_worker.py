"""The process in which `tfdist config check` makes the objects of a config: `python -m` this module.

Its launcher pickles the valid part of a config to its stdin; what is wrong comes back as JSON. Both ends run the same
installation of tfdist, and no other process reaches the pipes.
"""

from __future__ import annotations

import json
import os
import pickle
import sys


def main() -> None:
    """Checks the config on stdin, and writes what is wrong with it as JSON: a list of key, text and exit code."""
    content = sys.stdin.buffer.read()
    # What code of the user's own prints belongs to its messages.
    answers = os.dup(1)
    os.dup2(2, 1)
    # Imported here, as they take seconds: what is wrong with the streams is found first.
    import keras
    import tensorflow as tf

    from tfdist.config.dotted_path import search_in
    from tfdist.training.config_objects.objects import check_parts

    # A run may be using the GPUs. As in a worker, a dotted path is looked for in the working directory.
    tf.config.set_visible_devices([], "GPU")
    search_in(os.getcwd())
    values, skipped = pickle.loads(content)
    if "precision" in values:
        keras.config.set_dtype_policy(values["precision"])
    found = check_parts(values, tf.distribute.get_strategy(), skipped)
    with open(answers, "w", encoding="utf-8") as file:
        file.write(json.dumps([[problem.key, problem.text, problem.exit_code] for problem in found]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the user's code has left must not keep the launcher waiting.
    os._exit(0)


if __name__ == "__main__":
    main()
