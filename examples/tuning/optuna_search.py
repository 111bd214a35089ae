"""A search for hyperparameters by Optuna, each trial on all workers: pip install optuna

python examples/tuning/optuna_search.py                               one device, without tfdist
tfdist train --nproc 2 examples/tuning/optuna_search.py               two workers, the same trials and numbers
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import optuna

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--trials", type=int, default=3)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

with np.load(Path(__file__).parent.parent / "data" / "digits.npz") as digits:
    train, test = (digits["x_train"] / 16.0, digits["y_train"]), (digits["x_test"] / 16.0, digits["y_test"])


def accuracy_of(trial: optuna.Trial) -> float:
    keras.utils.set_random_seed(7)
    units = trial.suggest_int("units", 16, 64, step=16)
    rate = trial.suggest_float("learning_rate", 1e-3, 1e-2, log=True)
    model = keras.Sequential([keras.layers.Dense(units, "relu"), keras.layers.Dense(10, "softmax")])
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    for epoch in range(args.epochs):
        fit = model.fit(*train, validation_data=test, epochs=1, batch_size=128, verbose=0)
        # The same number on every worker, so that all of them prune alike.
        trial.report(fit.history["val_accuracy"][-1], epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return fit.history["val_accuracy"][-1]


# A seeded sampler and a study in memory: every worker proposes the same trials.
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    direction="maximize", sampler=optuna.samplers.TPESampler(seed=7), pruner=optuna.pruners.MedianPruner(2)
)
study.optimize(accuracy_of, n_trials=args.trials)
best = study.best_params
print(
    f"best of {args.trials}: units {best['units']}, learning rate {best['learning_rate']:.5f}, "
    f"accuracy {study.best_value:.4f}"
)
