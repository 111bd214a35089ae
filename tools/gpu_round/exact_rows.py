"""Rows of the table of exactness in one process, or as the target of `tfdist train`, with TensorFloat-32 off.

`... exact_rows OUT SAMPLES WHOLE ROW ...`: worker I writes to OUT.I a line of facts, then one for each row as soon as
it is done, with the bounds of its comparison. Of the first WHOLE rows there are `evaluate` and `predict`, too.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import numpy as np
import tensorflow as tf

from tests.exactness.cases import CASES, outcome
from tfdist.runtime.strategy_settings import settings_of


def main(out: str, samples: str, whole: str, *names: str) -> None:
    """Runs the rows and writes them."""
    # Both XLA's and cuBLAS's.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    # To optimize graphs that then run a dozen times takes as long as to trace them.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    index = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
    with open(f"{out}.{index}", "w", encoding="utf-8") as file:
        print(json.dumps(_facts()), file=file, flush=True)
        for number, name in enumerate(names):
            row = _row(name, int(samples), of_training_alone=number >= int(whole))
            print(json.dumps(row, default=lambda value: np.asarray(value).tolist()), file=file, flush=True)


def _facts() -> dict[str, Any]:
    strategy = tf.distribute.get_strategy()
    settings = settings_of(strategy)
    return {
        "replicas": strategy.num_replicas_in_sync,
        "nccl": settings.nccl,
        "jit": settings.jit,
        "gpus": len(tf.config.list_logical_devices("GPU")),
        "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
    }


def _row(name: str, samples: int, *, of_training_alone: bool) -> dict[str, Any]:
    try:
        found = outcome(name, samples, of_training_alone=of_training_alone)
    except Exception:  # The other rows are to be run as well.
        return {"row": name, "raised": traceback.format_exc()}
    precision = CASES[name].precision
    return {"row": name, "losses": precision.losses, "weights": precision.weights, "outcome": found}


if __name__ == "__main__":
    main(*sys.argv[1:])
