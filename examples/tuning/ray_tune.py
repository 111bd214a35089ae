"""A search for hyperparameters by Ray Tune, each trial on workers of a Ray cluster: pip install "tfdist[ray]"

python examples/tuning/ray_tune.py                                    a cluster of its own on this machine
RAY_ADDRESS=head:6379 python examples/tuning/ray_tune.py --workers 4 --storage /shared/search
"""

import argparse
import tempfile
from pathlib import Path

import ray
from ray import train, tune
from ray.tune.integration.ray_train import TuneReportCallback

import tfdist.ray

DATA = Path(__file__).resolve().parent.parent / "data" / "digits.npz"


def train_digits(config):
    """One trial, on each of its workers."""
    import keras
    import numpy as np

    with np.load(DATA) as digits:
        x_train, y_train = digits["x_train"] / 16.0, digits["y_train"]
        x_test, y_test = digits["x_test"] / 16.0, digits["y_test"]
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Dense(config["units"], "relu"), keras.layers.Dense(10, "softmax")])
    rate = keras.optimizers.Adam(config["learning_rate"])
    model.compile(rate, "sparse_categorical_crossentropy", metrics=["accuracy"])
    # Reports each epoch; --storage keeps what a trial resumes from.
    callbacks = tfdist.ray.callbacks(model=False)
    test = (x_test, y_test)
    model.fit(x_train, y_train, 128, config["epochs"], verbose=0, callbacks=callbacks, validation_data=test)


def run_trial(config):
    """Runs in a process of Tune's, beside those of its workers."""
    run = train.RunConfig(
        name=tune.get_context().get_trial_id(),
        storage_path=config["storage"],
        failure_config=train.FailureConfig(max_failures=2),
        callbacks=[TuneReportCallback()],
    )
    scaling = train.ScalingConfig(num_workers=config["workers"])
    tfdist.ray.Trainer(train_digits, train_loop_config=config, scaling_config=scaling, run_config=run, seed=7).fit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of each trial")
    parser.add_argument("--storage", help="a folder that all nodes share; default: a temporary one")
    args = parser.parse_args()
    ray.init(logging_level="ERROR", log_to_driver=False)
    storage = str(Path(args.storage or tempfile.mkdtemp()).absolute())
    space = {
        "units": tune.choice([16, 32, 48, 64]),
        "learning_rate": tune.loguniform(1e-3, 1e-2),
        "epochs": args.epochs,
        "workers": args.workers,
        "storage": storage,
    }
    search = tune.Tuner(
        # A trial must ask for something: its workers ask for the cores.
        tune.with_resources(run_trial, {"memory": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="val_accuracy",
            mode="max",
            search_alg=tune.search.BasicVariantGenerator(random_state=7),
            num_samples=args.trials,
            max_concurrent_trials=1,
        ),
        run_config=tune.RunConfig(name="search", storage_path=storage, verbose=0),
    )
    found = search.fit()
    best = found.get_best_result()
    units, rate = best.config["units"], best.config["learning_rate"]
    accuracy = best.metrics["val_accuracy"]
    print(f"best of {len(found)}: units {units}, learning rate {rate:.5f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
