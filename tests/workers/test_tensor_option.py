"""`--tensor`: the numbers of one device, by layouts that the script does not have."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow

SCRIPTS = Path(__file__).parent
CONFIG = Path(__file__).parents[2] / "configs" / "digits.yaml"
BOUND = 300


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Trains a script with options; returns what it has printed."""

    def train(
        *options: object, script: str = "tensor_training.py", arguments: Sequence[object] = ()
    ) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        target = (SCRIPTS / script, *(arguments or (place / "model",)))
        done = tfdist("train", *options, "--run-dir", place / "run", *target, timeout=BOUND)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        for saved in place.glob("*.keras"):
            said["saved"] = float(sum(np.abs(weight).sum() for weight in keras.models.load_model(saved).get_weights()))
        return said

    return train


def assert_same(one: dict[str, Any], several: dict[str, Any], relative: float, absolute: float) -> None:
    paths = keras.tree.flatten_with_path(one)
    for (path, expected), (_, found) in zip(paths, keras.tree.flatten_with_path(several), strict=True):
        np.testing.assert_allclose(found, expected, relative, absolute, err_msg=str(path))


@pytest.mark.bound(2 * BOUND + 60)
def test_numbers_of_one_device(trained: Callable[..., dict[str, Any]]) -> None:
    one, several = trained(), trained("--nproc", 2, "--tensor", 2)
    stored, alone = several.pop("stored"), one.pop("stored")
    assert_same(one, several, 1e-9, 1e-9)
    assert {path: shape for path, shape in stored.items() if shape != alone[path]} == {
        "embedding/embeddings": [1000, 64],
        "attention/query/kernel": [64, 1, 96],
        "attention/query/bias": [1, 96],
        "attention/key/kernel": [64, 1, 96],
        "attention/key/bias": [1, 96],
        "attention/value/kernel": [64, 1, 96],
        "attention/value/bias": [1, 96],
        "attention/attention_output/kernel": [1, 96, 64],
        "wide/kernel": [64, 128],
        "wide/bias": [128],
        "narrow/kernel": [128, 64],
        "words/kernel": [64, 1000],
        "words/bias": [1000],
    }


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("policy", "jit_compile", "near"),
    [
        slow("float32", "jit", 1e-4),
        slow("mixed_float16", "auto", 1e-2),
        slow("mixed_bfloat16", "auto", 5e-2),
        slow("mixed_bfloat16", "jit", 5e-2),
    ],
)
def test_numbers_of_one_device_in_16_bits_and_compiled(
    policy: str, jit_compile: str, near: float, tmp_path: Path, trained: Callable[..., dict[str, Any]]
) -> None:
    runs = (("--nproc", 1), ("--nproc", 2, "--tensor", 2))
    one, several = (trained(*options, arguments=(tmp_path / "model", policy, jit_compile)) for options in runs)
    stored, alone = several.pop("stored"), one.pop("stored")
    assert_same(one, several, near, near)
    assert sum(stored[path] != alone[path] for path in stored) == 13


@pytest.mark.bound(2 * BOUND + 60)
def test_numbers_of_one_device_from_a_config(tmp_path: Path) -> None:
    sizes = ("--set", "model.args.hidden=[512,64]", "--set", "fit.epochs=1")
    histories, saved = [], []
    for options in ((), ("--nproc", 2, "--set", "tensor=2")):
        run = tmp_path / f"run{len(options)}"
        done = tfdist("train", CONFIG, *options, *sizes, "--run-dir", run, timeout=BOUND)
        assert done.returncode == 0, done.stderr
        histories.append(json.loads((run / "history.json").read_text()))
        saved.append(keras.models.load_model(run / "model.keras").get_weights())
    assert "tensor: 2" in (run / "config.yaml").read_text() and "tensor over 2 workers" in done.stdout
    keras.tree.map_structure(lambda one, two: np.testing.assert_allclose(two, one, 2e-5, 1e-6), *histories)
    for one, two in zip(*saved, strict=True):
        np.testing.assert_allclose(two, one, 2e-5, 2e-5)


IN_FLOAT64 = ("gpt2", "bert", "bert_masked", "roberta", "roberta_masked", "bart")
IN_FLOAT32 = ("llama", "llama3", "gemma", "gemma3", "mistral", "phi3", "qwen", "qwen3", "t5")
"""They normalize in float32, or their loss is in it."""


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("name", "samples", "groups", "options"),
    [
        *(slow(name, 65, 0, ("--nproc", 2, "--tensor", 2)) for name in (*IN_FLOAT64, *IN_FLOAT32)),
        *(slow(name, 3, 0, ("--nproc", 2, "--tensor", 2)) for name in ("gpt2", "gemma")),
        *(slow(name, 65, 0, ("--nproc", 4, "--tensor", 2)) for name in ("gpt2", "gemma")),
        *(slow(name, 65, 1, ("--nproc", 2)) for name in ("llama", "gemma", "qwen")),
    ],
)
def test_models_of_keras_hub(
    name: str, samples: int, groups: int, options: tuple[object, ...], trained: Callable[..., dict[str, Any]]
) -> None:
    """Llama, Gemma and Qwen by the maps of their classes, with `--tensor` or set by the script, the others by derived
    layouts: `fit`, `evaluate` and `predict`, with a cache of keys and values too, and what they generate."""
    pytest.importorskip("keras_hub", reason="KerasHub is not installed; pip install keras-hub")
    runs = [(("--nproc", 1), 0), (options, groups)]
    one, several = (
        trained(*of_run, "--check", "off", script="tensor_hub_training.py", arguments=(name, samples, own_map))
        for of_run, own_map in runs
    )
    stored, alone = several.pop("stored"), one.pop("stored")
    assert several.pop("gathered") == one.pop("gathered") == []
    assert_same(one, several, *((1e-5, 1e-6) if name in IN_FLOAT32 else (1e-9, 1e-9)))
    assert sum(stored[path] != alone[path] for path in stored) >= 6


@pytest.mark.bound(BOUND + 60)
def test_plans_have_the_layouts_of_a_run() -> None:
    sizes = ("--set", "model.args.hidden=[512,64]", "--nproc", 2, "--tensor", 2)
    done = tfdist("plan", CONFIG, *sizes, "--memory", "--json", timeout=BOUND)
    assert done.returncode == 0, done.stderr
    memory = json.loads(done.stdout)["memory"]
    cut = {weight["path"]: weight["slices"] for weight in memory["layouts"]["weights"] if max(weight["slices"]) > 1}
    assert sorted(cut.values()) == [[1, 2], [2], [2, 1]]
    kept = 4 * (64 * 512 + 512 + 512 * 64) // 2 + 4 * (64 + 64 * 10 + 10)
    assert memory["modes"]["2"]["parameters"] == memory["layouts"]["state"]["parameters"] == kept
