"""Checkpoints that are written in the background: what becomes of the training meanwhile."""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.helpers.disks import small_disk
from tests.helpers.small_training import BATCH, STEPS, batches, compiled, datasets, sequential
from tfdist import keras_repairs
from tfdist.checkpoint import CheckpointManager, CheckpointSummary, RetentionPolicy, SavePolicy
from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_files import StoredCheckpoint, stored
from tfdist.keras_repairs.files.weights_copy import WeightsCopy
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback

EPOCHS = 2
SECONDS = 50.0


@pytest.fixture(autouse=True)
def repaired() -> Iterator[None]:
    keras_repairs.install()
    yield
    assert writer().wait(SECONDS)


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """Lets what waits for it go on; set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


class Told(keras.callbacks.Callback):
    """Calls functions after some steps of the run."""

    def __init__(self, acts: dict[int, Callable[[], None]]) -> None:
        super().__init__()
        self.acts, self.step = acts, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        self.acts.get(self.step, lambda: None)()


def fit(
    folder: Path,
    acts: dict[int, Callable[[], None]] | None = None,
    retention: RetentionPolicy | None = None,
    when_busy: Any = "wait",
    every: int | None = 2,
    model: keras.Model | None = None,
    saving: Callable[[], Any] = contextlib.nullcontext,
    after: Callable[[CheckpointCallback], None] = lambda callback: None,
) -> keras.Model:
    """Trains on one device; what `acts` has for a step comes before the checkpoint after it, `after` behind it."""
    strategy = tf.distribute.get_strategy()
    checkpoints = CheckpointManager(folder, retention or RetentionPolicy(100), strategy, when_busy=when_busy)
    facts = CheckpointSummary(0, 0, 0, 4, BATCH, STEPS * BATCH, 1, 1, 0.0)
    callback = CheckpointCallback(checkpoints, SavePolicy(every), facts, STEPS, dict, None, strategy, saving)
    model = model or compiled(sequential())
    last = Told(dict.fromkeys(range(STEPS * EPOCHS), lambda: after(callback)))
    model.fit(batches(), epochs=EPOCHS, verbose=0, callbacks=[Told(acts or {}), callback, last])
    return model


def whole(folder: Path) -> list[StoredCheckpoint]:
    return [entry for entry in reversed(stored(folder)) if entry.fault() is None]


def steps(folder: Path) -> list[int]:
    return sorted({entry.step for entry in whole(folder)})


@pytest.fixture
def blocked(go: threading.Event, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """From now on nothing is written before it is set."""
    content = WeightsCopy.content

    def wait(self: WeightsCopy) -> memoryview:
        assert go.wait(SECONDS)
        return content(self)

    monkeypatch.setattr(WeightsCopy, "content", wait)
    return go


def test_the_training_goes_on_while_a_checkpoint_is_written_and_changes_nothing_in_it(
    tmp_path: Path, blocked: threading.Event
) -> None:
    model = compiled(sequential())

    def keep_and_look() -> None:
        model.save_weights(tmp_path / "expected.weights.h5")

    fit(tmp_path / "run", {2: keep_and_look, 5: blocked.set}, every=2, when_busy="skip", model=model)
    first = whole(tmp_path / "run")[0]
    assert first.step == 2
    assert datasets(first.path / "model.weights.h5") == datasets(tmp_path / "expected.weights.h5")


def test_those_due_while_one_is_written_are_left_out_but_for_ends_of_epochs(
    tmp_path: Path, blocked: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tfdist"):
        fit(tmp_path, {5: blocked.set}, when_busy="skip")
    assert 2 in steps(tmp_path) and 4 not in steps(tmp_path)
    assert {STEPS, STEPS * EPOCHS} <= set(steps(tmp_path))
    assert "No checkpoint at step 4: the one before is still being written" in caplog.text


def test_the_next_waits_for_the_one_that_is_written(tmp_path: Path, go: threading.Event) -> None:
    checkpoints = CheckpointManager(tmp_path, RetentionPolicy(), tf.distribute.get_strategy())
    writer().start(lambda: go.wait(SECONDS))
    said: list[bool] = []
    waiting = threading.Thread(target=lambda: said.append(checkpoints.ready(5)))
    waiting.start()
    assert not said
    go.set()
    waiting.join(SECONDS)
    assert said == [True]


class Hanging:
    """In the place of the background: a job that never ends, which is only noted to be waited for."""

    is_busy = True

    def __init__(self, folder: Path) -> None:
        self.folder, self.found = folder, []

    def wait(self, seconds: float) -> bool:
        self.found.append([entry.name for entry in self.folder.iterdir()])
        return False


def test_what_hangs_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that begins anew, which removes nothing of what is being written before; and by one that is due."""
    (tmp_path / ".step-00000005.00000000.tmp").mkdir()
    hanging = Hanging(tmp_path)
    monkeypatch.setattr("tfdist.checkpoint.checkpoint_manager.writer", lambda: hanging)
    checkpoints = CheckpointManager(tmp_path, RetentionPolicy(), tf.distribute.get_strategy())
    assert hanging.found == [[".step-00000005.00000000.tmp"]]
    assert not checkpoints.ready(5, must=True)
    assert not checkpoints.ready(6, must=True)
    assert len(hanging.found) == 2


def test_a_disk_that_hangs_holds_nobody_for_good(
    tmp_path: Path, go: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tfdist.checkpoint.checkpoint_manager.WAIT_SECONDS", 0.01)
    checkpoints = CheckpointManager(tmp_path, RetentionPolicy(), tf.distribute.get_strategy())
    writer().start(lambda: go.wait(SECONDS))
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert not checkpoints.ready(5, must=True)
        monkeypatch.setattr("tfdist.checkpoint.checkpoint_manager.WAIT_SECONDS", SECONDS)
        assert not checkpoints.ready(6)  # at once: it has waited for this one
        assert not checkpoints.finish(0.01)
    go.set()
    assert writer().wait(SECONDS) and checkpoints.ready(7)
    assert "No checkpoint at step 5: the one before is still being written" in caplog.text
    assert "is not on the disk after" in caplog.text


def test_a_stop_returns_when_its_checkpoint_is_whole(tmp_path: Path) -> None:
    """Whether there is none of the step yet, or one on its way to the disk."""
    said: list[tuple[str | None, int]] = []
    fit(tmp_path, every=3, after=lambda callback: said.append((callback.save_now(), whole(tmp_path)[-1].step)))
    assert [step for _, step in said] == list(range(1, STEPS * EPOCHS))
    assert said[4][0] == f"step 5 (epoch 1, 5 of {STEPS} batches) in {tmp_path}"


def test_a_stop_tries_again_what_has_failed_at_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, said = WeightsCopy.content, []
    left = [1]

    def fail_once(self: WeightsCopy) -> memoryview:
        if left.pop() if left else False:
            raise OSError("gone for a moment")
        return content(self)

    monkeypatch.setattr(WeightsCopy, "content", fail_once)
    batches_done = itertools.count(1)
    fit(tmp_path, every=2, after=lambda callback: said.append(callback.save_now()) if next(batches_done) == 2 else None)
    assert not left
    assert said == [f"step 2 (epoch 1, 2 of {STEPS} batches) in {tmp_path}"]
    assert steps(tmp_path)[0] == 2


def test_the_training_tells_that_it_saves_while_it_copies_and_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not while the background writes."""
    inside: list[str] = []
    seen: list[tuple[str, bool]] = []

    @contextlib.contextmanager
    def saving() -> Iterator[None]:
        inside.append("saving")
        yield
        inside.pop()

    for owner, name in ((WeightsCopy, "take"), (CheckpointManager, "ready"), (CheckpointManager, "finish")):
        original = getattr(owner, name)

        def told(*args: Any, original: Any = original, name: str = name, **kwargs: Any) -> Any:
            seen.append((name, bool(inside)))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, told)
    between: list[int] = []
    fit(tmp_path, saving=saving, after=lambda callback: between.append(len(inside)))
    assert {name for name, _ in seen} == {"take", "ready", "finish"}
    assert all(is_told for _, is_told in seen) and not any(between)


def test_after_the_training_nothing_holds_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model keeps its callbacks."""
    copies: list[weakref.ref[WeightsCopy]] = []
    original = WeightsCopy.__init__

    def noting(self: WeightsCopy, *args: Any) -> None:
        original(self, *args)
        copies.append(weakref.ref(self))

    monkeypatch.setattr(WeightsCopy, "__init__", noting)
    model = fit(tmp_path)
    assert writer().wait(SECONDS)
    gc.collect()
    assert model is not None and copies and copies[-1]() is None


def test_the_best_and_every_mth_are_kept(tmp_path: Path) -> None:
    fit(tmp_path, retention=RetentionPolicy(1, best="loss", every_steps=4))
    assert steps(tmp_path) == [4, 8, 12]
    fit(tmp_path / "epochs", retention=RetentionPolicy(1, best="loss", larger_is_better=True))
    assert steps(tmp_path / "epochs") == [STEPS, STEPS * EPOCHS]


@pytest.mark.parametrize("left", [0, 4096, 100_000, 200_000])
def test_on_a_full_disk_the_training_goes_on_and_saves_when_there_is_room(
    left: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Full for a directory, for the weights' first page, in the midst of the weights."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        ballast = disk / "ballast"
        with ballast.open("wb") as file:
            file.write(bytes(2 * 2**20 - left))
        with caplog.at_level(logging.WARNING, "tfdist"):
            fit(disk / "run", {9: ballast.unlink}, model=compiled(sequential(units=4000)))
        # That of step 8 may be under way when there is room.
        assert {10, 12} <= set(steps(disk / "run")) <= {8, 10, 12}
        assert {entry.name[:5] for entry in (disk / "run").iterdir()} == {"step-"}
    for step in (2, 4, 6):
        assert f"No checkpoint at step {step}. The training continues without it. The disk is full" in caplog.text
