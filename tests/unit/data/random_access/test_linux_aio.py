from __future__ import annotations

import gc
import os
import platform
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tfdist.data.random_access.linux_aio import MAX_READS, AioReader

SIZES = (1000, 50_000)


@pytest.fixture(name="descriptors")
def open_files(tmp_path: Path) -> Iterator[list[int]]:
    opened = []
    for number, size in enumerate(SIZES):
        (tmp_path / str(number)).write_bytes(np.random.default_rng(number).bytes(size))
        opened.append(os.open(tmp_path / str(number), os.O_RDONLY))
    yield opened
    for descriptor in opened:
        os.close(descriptor)


@pytest.fixture(name="many")
def open_many() -> AioReader:
    many = AioReader.if_possible()
    if many is None:
        pytest.skip("this system does not read many places in one call")
    return many


def draw(descriptors: list[int], count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places in the files, and how much to read of each: 0 to 100 bytes."""
    generator = np.random.default_rng(seed)
    files = generator.integers(0, len(descriptors), count)
    sizes = generator.integers(0, 101, count)
    return np.array(descriptors)[files], generator.integers(0, np.array(SIZES)[files] - sizes + 1), sizes


def each(descriptors: np.ndarray, offsets: np.ndarray, sizes: np.ndarray) -> bytes:
    places = zip(descriptors.tolist(), sizes.tolist(), offsets.tolist(), strict=True)
    return b"".join(os.pread(*place) for place in places)


@pytest.mark.parametrize("count", [1, 7, MAX_READS])
def test_reads_what_single_reads_find(many: AioReader, descriptors: list[int], count: int) -> None:
    into = np.zeros(100 * MAX_READS, np.uint8)
    for seed in range(20):
        places = draw(descriptors, count, seed)
        assert many.read(*places, into)
        assert into[: places[2].sum()].tobytes() == each(*places)


@pytest.mark.parametrize("wrong", ["past the end", "no file", "no file first"])
def test_says_when_something_cannot_be_read(many: AioReader, descriptors: list[int], wrong: str) -> None:
    into = np.zeros(3000, np.uint8)
    files, offsets, sizes = draw(descriptors, 20, seed=1)
    if wrong == "past the end":
        files[7], offsets[7], sizes[7] = descriptors[0], SIZES[0] - 10, 11
    else:
        files[0 if wrong == "no file first" else 7] = 1 << 20
    assert not many.read(files, offsets, sizes, into)
    places = draw(descriptors, 20, seed=2)
    assert many.read(*places, into), "and works as before"
    assert into[: places[2].sum()].tobytes() == each(*places)


def test_several_threads(many: AioReader, descriptors: list[int]) -> None:
    failed = []

    def read(thread: int) -> None:
        into = np.zeros(100 * MAX_READS, np.uint8)
        for seed in range(100):
            places = draw(descriptors, MAX_READS, 1000 * thread + seed)
            if not many.read(*places, into) or into[: places[2].sum()].tobytes() != each(*places):
                failed.append((thread, seed))

    threads = [threading.Thread(target=read, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def test_other_machines_have_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    assert AioReader.if_possible() is None


def contexts() -> int:
    """Those of this process: each is mapped into its memory. (/proc/sys/fs/aio-nr counts those of all processes.)"""
    return Path("/proc/self/maps").read_text().count("/[aio]")


def test_nothing_is_left_behind(many: AioReader) -> None:
    gc.collect()
    before = contexts()
    if not before:
        pytest.skip("this system does not show what is mapped")
    try:
        several = [AioReader() for _ in range(5)]
    except OSError:
        pytest.skip("other processes of this machine have all that it allows")
    assert contexts() == before + 5
    del several
    assert contexts() == before
