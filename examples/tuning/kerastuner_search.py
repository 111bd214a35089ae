"""A search for hyperparameters by KerasTuner, each trial on all workers: pip install keras-tuner

python examples/tuning/kerastuner_search.py                           one device, without tfdist
tfdist train --nproc 2 examples/tuning/kerastuner_search.py           two workers, the same trials and numbers
"""

import argparse
from pathlib import Path

import keras
import keras_tuner
import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--trials", type=int, default=3)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--directory", default="runs/tuning", help="where trials are kept; another one for another search")
args = parser.parse_args()

keras.utils.set_random_seed(7)
with np.load(Path(__file__).parent.parent / "data" / "digits.npz") as digits:
    train, test = (digits["x_train"] / 16.0, digits["y_train"]), (digits["x_test"] / 16.0, digits["y_test"])


def build(trial: keras_tuner.HyperParameters) -> keras.Model:
    units = trial.Int("units", 16, 64, step=16)
    model = keras.Sequential([keras.layers.Dense(units, "relu"), keras.layers.Dense(10, "softmax")])
    rate = trial.Float("learning_rate", 1e-3, 1e-2, sampling="log")
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


# Seeded: every worker proposes the same trials.
tuner = keras_tuner.RandomSearch(
    build, "val_accuracy", max_trials=args.trials, seed=7, directory=args.directory, project_name="digits"
)
tuner.search(*train, validation_data=test, epochs=args.epochs, batch_size=128, verbose=0)
best = tuner.get_best_hyperparameters()[0].values
score = tuner.oracle.get_best_trials()[0].score
print(f"best of {args.trials}: units {best['units']}, learning rate {best['learning_rate']:.5f}, accuracy {score:.4f}")
