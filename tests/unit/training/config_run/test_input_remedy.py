from __future__ import annotations

from typing import Any

import pytest

from tfdist.training.config_run.input_place import Place
from tfdist.training.config_run.input_remedy import InputDescription, remedy
from tfdist.training.config_run.input_wait import InputWait


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
