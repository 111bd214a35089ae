"""A package that stands in for tf_keras, as far as TensorFlow and tfdist know it: the tests do without Keras 2."""

from __future__ import annotations

from pathlib import Path

PACKAGE = '''
class Model:
    def __call__(self, x):
        return x + 1

    def fit(self, x):
        print("Keras 2 has trained", flush=True)


class optimizers:
    class Optimizer:
        def apply_gradients(self, pairs):
            print("Keras 2 has trained", flush=True)
'''


def write_legacy_keras(folder: Path) -> None:
    """Writes the package into `folder`."""
    for part in ("tf_keras", "tf_keras/api", "tf_keras/api/_v2", "tf_keras/api/_v2/keras"):
        (folder / part).mkdir()
        (folder / part / "__init__.py").write_text("")
    (folder / "tf_keras/__init__.py").write_text(PACKAGE)
    (folder / "tf_keras/api/_v2/keras/__init__.py").write_text("from tf_keras import Model, optimizers\n")
