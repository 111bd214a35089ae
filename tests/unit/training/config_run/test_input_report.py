from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.config.data_sections import (
    CsvSource,
    GeneratorSource,
    ImagesSource,
    NpzSource,
    SourceConfig,
    TfrecordSource,
)
from tfdist.data.formats import npz_files
from tfdist.training.config_run import input_report
from tfdist.training.config_run.input_report import (
    InputDescription,
    InputWait,
    InputWaitClock,
    Place,
    idle_seconds,
    place_of,
    remedy,
)


def told(busy: float, name: str = "tfrecord", **known: Any) -> str:
    fields: dict[str, Any] = {"decodes": False, "python": "", "function": "", "cores": 4, **known}
    return remedy(InputDescription(name, **fields), InputWait(10.0, 2.0, busy))


@pytest.mark.parametrize(
    ("known", "busy", "expected"),
    [
        ({"python": "my.parse", "function": "my.parse"}, 1.0, "my.parse runs Python code for each sample"),
        ({"name": "csv"}, 4.0, "tfdist data shard"),
        ({"name": "text", "function": "my.vectorize"}, 1.2, "tfdist data shard"),
        ({"name": "generator", "function": "my.samples", "place": Place.MEMORY}, 1.0, "give it lanes"),
        ({"function": "my.parse"}, 3.9, "what my.parse does alike in every epoch"),
        ({"name": "images", "decodes": True}, 3.5, "store the images in about the size that they are resized to"),
        ({"name": "npz", "cores": 2, "place": Place.MEMORY}, 2.0, "2.0 of 2 cores are busy: give the run more of them"),
    ],
)
def test_the_one_change_that_would_help_most(known: dict[str, Any], busy: float, expected: str) -> None:
    assert expected in told(busy, **known)


@pytest.mark.parametrize(
    ("place", "name", "gpus", "expected"),
    [
        (
            Place.MEMORY,
            "npz",
            0,
            "The samples are in memory, and 1.0 of 4 cores are busy: what takes the time is putting batches together, "
            "in one thread of each worker. Larger batches (data.batch_size) cost less a sample.",
        ),
        (Place.MEMORY, "npz", 8, "a sample; with --nproc 8 each GPU has a worker of its own for it."),
        (Place.KEPT, "tfrecord", 1, "what takes the time is reading records and putting batches together, in one"),
        (Place.KEPT, "images", 0, "it is opening a file for each that takes the time. `tfdist data shard` makes a few"),
        (Place.DISK, "npz", 0, "the disk is too slow for these files, of which memory holds only a part: put them"),
        (Place.DISK, "images", 0, "put them on a faster one; `tfdist data shard` makes a few large files"),
        (Place.NETWORK, "tfrecord", 0, "copy them to a disk of each host."),
        (Place.REMOTE, "tfrecord", 0, "of which up to data.train.interleave are read at the same time."),
    ],
)
def test_where_cores_are_idle_it_depends_on_where_the_samples_are(
    place: Place, name: str, gpus: int, expected: str
) -> None:
    assert expected in told(1.0, name, place=place, gpus=gpus)


@pytest.mark.parametrize(("free", "is_idle"), [(1.0, True), (0.9, False)])
def test_cores_that_others_keep_busy_are_not_idle(free: float, is_idle: bool) -> None:
    source = InputDescription("npz", decodes=False, python="", function="", cores=4, place=Place.MEMORY)
    said = remedy(source, InputWait(10.0, 2.0, 1.0, free))
    expected = "This worker has 1.0 of 4 cores, and other processes keep the rest busy: give the run more of them."
    assert (said == expected) is not is_idle


@pytest.mark.parametrize("place", [Place.MEMORY, Place.KEPT])
def test_no_faster_disk_is_advised_for_what_is_in_memory(place: Place) -> None:
    assert "disk" not in told(1.0, place=place) and "disk" not in told(1.0, "images", place=place, decodes=True)


def test_a_stretch_ends_with_its_last_step() -> None:
    waited: Iterator[float] = iter([1.0, 1.0, 1.5])
    now: Iterator[float] = iter([0.0, 10.0, 12.0, 14.0, 18.0])
    idle: Iterator[float] = iter([0.0, 100.0, 106.0])
    cpu: Iterator[float] = iter([0.0, 5.0, 8.0, 11.0])
    clock = InputWaitClock(lambda: next(waited), lambda: next(now), lambda: next(cpu), lambda: next(idle))
    clock.begin()
    clock.step()
    clock.step()
    # What is idle is known of the time until the end alone, not of that until the last step.
    assert clock.end() == InputWait(seconds=4.0, waited=0.5, busy=1.5, free=0.75)


@pytest.mark.parametrize("known", [(1.0, None), (None, 1.0), (None, None)])
def test_a_machine_that_does_not_say_what_is_idle(known: tuple[float | None, float | None]) -> None:
    before, after = known
    idle = iter([before, before, after])
    clock = InputWaitClock(lambda: 0.0, iter(range(100)).__next__, lambda: 0.0, lambda: next(idle))
    clock.begin()
    clock.step()
    assert clock.end().free == math.inf


def test_the_idle_time_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")
    file.write_text(f"cpu  1 2 3 {40 * ticks} {2 * ticks} 0 0 0 0 0\ncpu0 1 2 3 4 5\n")
    assert idle_seconds(file) == 42
    for content in ("", "cpu 1 2", "cpu a b c d e f"):
        file.write_text(content)
        assert idle_seconds(file) is None
    assert idle_seconds(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("wait", "share"),
    [(InputWait(4.0, 1.0, 1.0), 0.25), (InputWait(1.0, 1.1, 1.0), 1.0), (InputWait(0.0, 0.0, 0.0), 0.0)],
)
def test_the_part_that_waited(wait: InputWait, share: float) -> None:
    assert wait.share == share


@pytest.mark.parametrize(
    ("seconds", "waited", "much"), [(20.0, 2.5, True), (20.0, 1.5, False), (1.0, 0.9, False), (2.0, 1.1, True)]
)
def test_what_is_worth_a_remedy(seconds: float, waited: float, much: bool) -> None:
    assert InputWait(seconds, waited, 1.0).is_much is much


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "a.npz", x_train=np.zeros((500, 2), "float32"), y_train=np.zeros(500))
    for name in ("a-1", "a-2", "b"):
        (tmp_path / name).write_bytes(bytes(500))
    (tmp_path / "images" / "cat").mkdir(parents=True)
    for index in range(300):
        (tmp_path / "images" / "cat" / f"{index}.png").write_bytes(bytes(10))
    return tmp_path


def tfrecords(*files: object) -> SourceConfig:
    return TfrecordSource(files=[str(file) for file in files], parse="my.parse")


def test_arrays_are_in_memory_unless_they_are_mapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = NpzSource(path=str(folder / "a.npz"), split="train")
    assert place_of(section, memory=1) is Place.MEMORY
    monkeypatch.setattr(npz_files, "MAPPED_FROM_BYTES", 1000)
    assert place_of(section, memory=1) is not Place.MEMORY
    assert place_of(section) is Place.KEPT


@pytest.mark.parametrize(
    ("memory", "local", "place"),
    [(2000, "ext4", Place.KEPT), (1900, "ext4", Place.DISK), (1900, None, Place.NETWORK), (2000, None, Place.KEPT)],
)
def test_files_are_kept_in_memory_that_is_twice_as_large(
    memory: int, local: str | None, place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_report, "local_file_system", lambda path: local)
    assert place_of(tfrecords(folder / "a-*"), memory) is place


def test_the_size_of_many_files_is_that_of_some(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = ImagesSource(path=str(folder / "images"), size=[4, 4])
    monkeypatch.setattr(input_report, "local_file_system", lambda path: "ext4")
    monkeypatch.setattr(input_report, "_MOST_STATS", 7)
    assert place_of(section, memory=6000) is Place.KEPT
    assert place_of(section, memory=5990) is Place.DISK


@pytest.mark.parametrize(
    ("section", "place"),
    [
        (tfrecords("gs://bucket/a-*"), Place.REMOTE),
        (tfrecords("gs://bucket/a-*", "b"), Place.REMOTE),
        (GeneratorSource(function="my.samples"), Place.MEMORY),
        # What was there when the run began may be gone at its end.
        (tfrecords("/none/a-*"), Place.DISK),
        (CsvSource(files="/none/a.csv", label="y"), Place.DISK),
        (NpzSource(path="/none/a.npz", split="train"), Place.DISK),
        (ImagesSource(path="/none", size=[4, 4]), Place.DISK),
    ],
)
def test_what_is_elsewhere_or_gone(section: Any, place: Place) -> None:
    assert place_of(section) is place
