"""The process in which something is made of a config: the other end of `tfdist.launch.config_process`."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from tfdist.bounded_process import question_of_parent


def answer(make: Callable[[Any], Any]) -> None:
    """Answers the question that is pickled on stdin, as JSON on stdout, and ends the process.

    Args:
        make: Makes the answer, in JSON's types, of the question. No GPU is visible meanwhile.
    """
    question = question_of_parent()
    # What code of the user's own prints belongs to its messages.
    answers = os.dup(1)
    os.dup2(2, 1)
    # Imported here, as they take seconds: what is wrong with the streams is found first.
    import tensorflow as tf

    from tfdist.config.dotted_path import search_in
    from tfdist.training.session.generated_code import generated_code_apart

    # A run may be using the GPUs. As in a worker, a dotted path is looked for in the working directory.
    tf.config.set_visible_devices([], "GPU")
    search_in(os.getcwd())
    with generated_code_apart():
        made = make(pickle.loads(question))
    with open(answers, "w", encoding="utf-8") as file:
        file.write(json.dumps(made))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the user's code has left must not keep the launcher waiting.
    os._exit(0)
