"""Libraries that compute in this process: their versions, a check of them, and their seeds.

Refuses to train with Keras 2, which a script can choose while it runs.

The launcher looks at the environment of the workers that it starts. A script may set TF_USE_LEGACY_KERAS itself, before
or after it imports TensorFlow, or import tf_keras. Libraries import it, too, to load what was saved with it: so it is
not the import that is refused, but training.
"""

from __future__ import annotations

import importlib.util
import platform
import random
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError, UsageError
from tfdist.versions import VERSION

_NAME = "tf_keras"
_CALLS = {
    "Model": ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"),
    "optimizers.Optimizer": ("apply_gradients",),
    "optimizers.legacy.Optimizer": ("apply_gradients",),
}
"""The methods by which a script trains: classes of tf_keras, and their methods."""


def versions() -> dict[str, str]:
    """Package -> its version, and `python` -> the interpreter's."""
    # The libraries' own word: a build of TensorFlow may be installed under another name, tfdist not at all.
    return {
        "python": platform.python_version(),
        "tfdist": VERSION,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def check_libraries() -> None:
    """Checks Keras's backend, and refuses to train with Keras 2.

    Raises:
        UsageError: Keras runs on another backend, whose `fit` would train on each worker separately.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"Keras runs on {backend}. Expected tensorflow, on which tfdist trains. Set the backend in "
            "~/.keras/keras.json to it, and leave KERAS_BACKEND as `tfdist train` sets it."
        )
    refuse_legacy_keras()


def seed_all(seed: int) -> None:
    """Seeds Python, NumPy, TensorFlow and Keras, and the entropy of NumPy generators that are made without a seed.

    `np.random.default_rng()` without a seed takes its entropy from the operating system, which gives every worker
    different bits: two workers would split one dataset in two ways. From now on it takes the next bits of one sequence.

    Args:
        seed: 0 to 2**32 - 1, the same on every worker.
    """
    keras.utils.set_random_seed(seed)
    np.random.bit_generator.randbits = random.Random(seed).getrandbits  # type: ignore[attr-defined]


def refuse_legacy_keras() -> None:
    """Makes the methods by which Keras 2 trains raise UnsupportedError, as soon as tf_keras is imported."""
    if _NAME in sys.modules:
        _refuse_training(sys.modules[_NAME])
    elif not any(isinstance(finder, _LegacyKerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LegacyKerasFinder())


class _LegacyKerasFinder(MetaPathFinder):
    """Finds nothing itself: it waits for the import of tf_keras, which the other finders find."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            setattr(spec.loader, "exec_module", _then_refusing(spec.loader.exec_module))  # noqa: B010
        return spec


def _then_refusing(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        execute(module)
        _refuse_training(module)

    return exec_module


def _refuse_training(module: ModuleType) -> None:
    for path, methods in _CALLS.items():
        owner: Any = module
        for part in path.split("."):
            owner = getattr(owner, part, None)
        for method in methods:
            if hasattr(owner, method):
                setattr(owner, method, _refusing(f"{_NAME}.{path}.{method}"))


def _refusing(method: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(
            f"The script trains with Keras 2: it calls {method}. Expected Keras 3, which tfdist repairs: on several "
            "replicas Keras 2 gives other numbers than on one. Use `import keras`, or tf.keras without "
            "TF_USE_LEGACY_KERAS, which the script or a library sets to 1; or train without tfdist."
        )

    return refuse
