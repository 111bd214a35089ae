"""The process in which `tfdist plan --memory` traces a step of a config: `python -m` this module."""

from __future__ import annotations

from typing import Any

from tfdist.training.config_objects.answering_process import answer


def main() -> None:
    """Answers with the sizes of a config's step, or with the text and the exit code of what is wrong."""
    answer(_sizes)


def _sizes(question: tuple[Any, int]) -> dict[str, Any]:
    import keras

    from tfdist import keras_repairs
    from tfdist.errors import TfdistError
    from tfdist.keras_repairs.sharded_parameters.tensor_layouts import plan_layouts_over
    from tfdist.training.step_memory.symbolic_step import step_sizes

    config, share = question
    keras.config.set_dtype_policy(config.precision)
    try:
        # The graph is to be the one that a run traces: without them Keras recomputes no activations.
        keras_repairs.install()
        plan_layouts_over(config.tensor)
        return step_sizes(config, share).to_json()
    except TfdistError as error:
        return {"error": str(error), "code": error.exit_code}


if __name__ == "__main__":
    main()
