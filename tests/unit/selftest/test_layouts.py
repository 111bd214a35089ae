""""""

from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.selftest.layouts import Layout, layouts
from tfdist.selftest.rows import ROWS, SelftestSpec

ONE = Layout("1 device", 1, 1)


@pytest.mark.parametrize(
    ("seen", "options", "one", "others"),
    [
        (0, {}, ONE, [Layout("2 logical devices", 1, 2, None, 2), Layout("2 workers", 2, 2)]),
        (0, {"logical": 3, "nproc": 4}, ONE, [Layout("3 logical devices", 1, 3, None, 3), Layout("4 workers", 4, 4)]),
        (
            1,
            {},
            Layout("1 device", 1, 1, (0,)),
            [Layout("2 logical devices", 1, 2, (0,), 2), Layout("2 workers on 1 GPU", 2, 2, (0,))],
        ),
        (
            2,
            {"nproc": 3},
            Layout("1 device", 1, 1, (0,)),
            [Layout("2 devices", 1, 2, (0, 1)), Layout("3 workers on 2 GPUs", 3, 3, (0, 1))],
        ),
        (
            4,
            {},
            Layout("1 device", 1, 1, (0,)),
            [Layout("4 devices", 1, 4, (0, 1, 2, 3)), Layout("4 workers", 4, 4, (0, 1, 2, 3))],
        ),
        (
            4,
            {"devices": (2, 3)},
            Layout("1 device", 1, 1, (2,)),
            [Layout("2 devices", 1, 2, (2, 3)), Layout("2 workers", 2, 2, (2, 3))],
        ),
        (
            4,
            {"nproc": 3, "logical": 1},
            Layout("1 device", 1, 1, (0,)),
            [Layout("4 devices", 1, 4, (0, 1, 2, 3)), Layout("3 workers", 3, 3, (0, 1, 2))],  # a GPU for each
        ),
        (
            2,
            {"logical": 2},
            Layout("1 device", 1, 1, (0,)),
            [Layout("4 logical devices", 1, 4, (0, 1), 2), Layout("2 workers", 2, 2, (0, 1))],
        ),
    ],
)
def test_layouts(seen: int, options: dict[str, object], one: Layout, others: list[Layout]) -> None:
    found = layouts(seen, **{"devices": None, "logical": None, "nproc": None, **options})  # type: ignore[arg-type]
    assert (found.one, list(found.others)) == (one, others)


@pytest.mark.parametrize(
    ("nccl", "how"),
    [
        ("2.31.2 (nvidia-nccl-cu12)", "exchange over NCCL 2.31.2 (nvidia-nccl-cu12), and take turns"),
        ("2.29.1 (libnccl.so.2)", "exchange over the ring, as NCCL 2.29.1 (libnccl.so.2) does not on one GPU"),
        (None, "exchange over the ring, as NCCL of unknown version does not on one GPU"),
    ],
)
def test_workers_that_share_a_gpu_say_how_they_exchange(nccl: str | None, how: str) -> None:
    tf32, sharing = layouts(1, None, None, None, nccl).notes
    assert "without TensorFloat-32" in tf32
    assert sharing.startswith("2 workers on 1 GPU (--share-gpu) ") and how in sharing
    assert layouts(2, None, None, None, nccl).notes == (tf32,)
    assert layouts(0, None, None, None, nccl).notes == ()


@pytest.mark.parametrize(
    ("seen", "devices", "logical", "nproc", "message"),
    [
        (2, (1, 2), None, None, r"names GPU 2, .* sees 2 GPU\(s\) here. .* Received: --devices 1,2"),
        (0, (0,), None, None, "names GPU 0"),
        (0, None, 1, None, "Received: --logical-devices 1"),
        (4, (3,), 1, None, "Received: --logical-devices 1"),
    ],
)
def test_what_is_refused(
    seen: int, devices: tuple[int, ...] | None, logical: int | None, nproc: int | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        layouts(seen, devices, logical, nproc)


def test_all_rows_unless_some_are_named() -> None:
    assert SelftestSpec().chosen == ROWS
    # In the order of the table.
    assert [row.name for row in SelftestSpec(only=("speed", "dense", "dense")).chosen] == ["dense", "speed"]


def test_a_row_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="Received: --only mask. Did you mean masks?"):
        SelftestSpec(only=("dense", "mask"))


def test_one_worker_is_no_comparison() -> None:
    with pytest.raises(UsageError, match="Expected --nproc 2 or more"):
        SelftestSpec(nproc=1)


def test_names_are_one_word_and_come_once() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
