"""The process in which `tfdist config check` makes the objects of a config: `python -m` this module."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tfdist.training.config_objects.answering_process import answer


def main() -> None:
    """Checks the valid part of a config, and answers what is wrong with it: a list of key, text and exit code."""
    answer(_check)


def _check(question: tuple[Mapping[str, Any], Collection[str]]) -> list[list[Any]]:
    import keras
    import tensorflow as tf

    from tfdist.training.config_objects.objects import check_parts

    values, skipped = question
    if "precision" in values:
        keras.config.set_dtype_policy(values["precision"])
    found = check_parts(values, tf.distribute.get_strategy(), skipped)
    return [[problem.key, problem.text, problem.exit_code] for problem in found]


if __name__ == "__main__":
    main()
