"""Repairs of what TensorFlow's oneDNN kernels do where a replica has no sample.

TensorFlow takes those kernels by itself on some processors alone (x86-64 with AVX-512 and VNNI, for instance), and
decides at its import. So each test runs a process of its own, with TF_ENABLE_ONEDNN_OPTS=1.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.marks import slow

SAMPLES = 65

PROGRAM = """
import sys
import tests.devices.conftest
import pytest
from tests.devices.mirrored import mirrored
from tests.devices.references import of_one_replica
from tests.devices.repair_removal import take_out
from tests.exactness.cases import outcome
from tests.exactness.comparison import assert_same_case

name, samples, *taken_out = sys.argv[1:]
expected = of_one_replica(name, int(samples))
for path in taken_out:
    take_out(path, pytest.MonkeyPatch())
print("begun", flush=True)
with mirrored(3).scope():
    received = outcome(name, int(samples), of_training_alone=True)
    assert_same_case(name, {part: expected[part] for part in received}, received)
print("same", flush=True)
"""

NN = "keras.src.backend.tensorflow.nn"

TAKEN_OUT = [
    (f"{NN}.conv", "convolutions_in_float32"),
    (f"{NN}.depthwise_conv", "convolutions_in_float32"),
    (f"{NN}.separable_conv", "convolutions_in_float32"),
    slow(f"{NN}.conv_transpose", "transposed_convolution_in_float32"),
]


def compared(name: str, *taken_out: str) -> subprocess.CompletedProcess[str]:
    """Compares a case on three replicas with one where oneDNN is on, with some repairs taken out."""
    command = [sys.executable, "-c", PROGRAM, name, str(SAMPLES), *taken_out]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment)


@pytest.mark.parametrize(
    "name", ["convolutions_in_float32", slow("transposed_convolution_in_float32"), slow("max_pooling_in_float32")]
)
def test_exact_with_onednn(name: str) -> None:
    done = compared(name)
    assert done.stdout == "begun\nsame\n", done.stderr


@pytest.mark.parametrize(("path", "name"), TAKEN_OUT)
def test_case_fails_without_its_repair(path: str, name: str) -> None:
    done = compared(name, path)
    assert done.stdout == "begun\n", done.stderr
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize("taken_out", ["max_pool", "adaptive_max_pool"])
def test_a_maximum_of_no_sample_ends_the_process(taken_out: str) -> None:
    done = compared("max_pooling_in_float32", f"{NN}.{taken_out}")
    assert done.stdout == "begun\n", done.stderr
    assert done.returncode < 0, done.stderr
