"""Makes examples/data/digits.npz from the UCI handwritten digits that scikit-learn ships.

    pip install scikit-learn
    python tools/make_digits.py

The file has tfdist's npz layout: x_train [1437, 64] and x_test [360, 64], uint8 from 0 to 16, one 8x8 image a row;
y_train [1437] and y_test [360], uint8 from 0 to 9. Every fifth sample of a fixed permutation is in the test split.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

OUTPUT = Path(__file__).resolve().parent.parent / "examples" / "data" / "digits.npz"


def main() -> None:
    """Writes the file and prints what is in it."""
    digits = load_digits()
    # The writers come one after another in the source: without a permutation the splits would have different writers.
    order = np.argsort(np.random.Philox(7).random_raw(len(digits.target)), kind="stable")
    x, y = digits.data[order].astype(np.uint8), digits.target[order].astype(np.uint8)
    test = np.arange(len(y)) % 5 == 0
    splits = {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test]}
    np.savez_compressed(OUTPUT, **splits)
    print(f"{OUTPUT}: " + ", ".join(f"{name} {list(array.shape)}" for name, array in splits.items()))


if __name__ == "__main__":
    main()
