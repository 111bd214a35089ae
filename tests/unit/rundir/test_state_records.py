from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.rundir import RunDir, create_run_dir
from tfdist.rundir.state_records import completed_epochs, completion_text, note_completion, trained_text


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return create_run_dir(tmp_path / "r", name="n")


def test_a_run_is_complete_with_its_model_and_epochs(run: RunDir) -> None:
    assert completed_epochs(run) == 0
    run.model_file.write_text("a model that a run killed later has left")
    assert completed_epochs(run) == 0
    note_completion(run, 3)
    assert completed_epochs(run) == 3
    run.model_file.unlink()
    assert completed_epochs(run) == 0


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"epochs": ', '{"epochs": "3"}', '{"epochs": -3}'])
def test_a_damaged_note_says_nothing(run: RunDir, content: str) -> None:
    run.model_file.write_text("")
    run.done_file.write_text(content)
    assert completed_epochs(run) == 0


def test_what_is_said(run: RunDir) -> None:
    said = "n: was done before, 3 epochs; nothing to train (for more: --set fit.epochs=N)."
    assert completion_text("n", 3, None) == said
    assert completion_text("n", 3, run) == f"{said} model {run.model_file}"


def test_a_run_that_a_callback_has_stopped_is_complete_and_says_where(run: RunDir) -> None:
    run.model_file.touch()
    note_completion(run, 10, 4)
    assert completed_epochs(run) == 10
    said = completion_text("digits", 10, run)
    assert said.startswith("digits: was done before; a callback had stopped it after 4 of 10 epochs. model ")


def test_a_run_that_was_resumed_to_train_less_than_it_had_counts_what_it_has(run: RunDir) -> None:
    run.model_file.touch()
    note_completion(run, 3, 7)
    assert completed_epochs(run) == 7
    assert completion_text("digits", 7, run).startswith("digits: was done before, 7 epochs; nothing to train")


@pytest.mark.parametrize(
    ("epochs", "trained", "said"),
    [
        (10, 10, "10 epochs of 1,437 samples"),
        (1, 1, "1 epoch of 1,437 samples"),
        (10, 6, "stopped by a callback after 6 of 10 epochs of 1,437 samples"),
        (3, 7, "7 epochs of 1,437 samples; nothing was left to train (fit.epochs: 3)"),
    ],
)
def test_how_much_was_trained(epochs: int, trained: int, said: str) -> None:
    assert trained_text(epochs, trained, "1,437 samples") == said
