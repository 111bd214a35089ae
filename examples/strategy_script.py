"""A script that uses tfdist's Python API: it asks for the strategy and reads its data through tfdist.

tfdist train --nproc 2 examples/strategy_script.py --epochs 5
tfdist train --logical-devices 3 examples/strategy_script.py
"""

import argparse
from pathlib import Path

import keras

import tfdist
from tfdist.models import mlp

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()

keras.utils.set_random_seed(7)
strategy = tfdist.strategy()
print(f"worker {tfdist.worker_index()} of {tfdist.num_workers()}, {tfdist.num_replicas()} replicas in all")

with strategy.scope():
    model = mlp(inputs=[64], hidden=[128, 64], classes=10)
    model.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"])

digits = Path(__file__).parent / "data" / "digits.npz"
train = tfdist.data.npz(digits, "train", batch_size=128, shuffle=True, seed=7, strategy=strategy)
test = tfdist.data.npz(digits, "test", batch_size=128, strategy=strategy)
model.fit(train, epochs=args.epochs, validation_data=test, verbose=2)
loss, accuracy = model.evaluate(test, verbose=0)
if tfdist.is_chief():
    print(f"test loss {loss:.5f}, test accuracy {accuracy:.4f}")
