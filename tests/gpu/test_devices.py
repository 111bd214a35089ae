"""Which strategy, which collectives and which GPUs a worker has, and how much memory of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu.machine import gpu_count, needs
from tests.gpu.worker_reports import reports
from tfdist.runtime.nccl_version import lets_workers_share_a_gpu, nccl_version

pytestmark = [pytest.mark.gpu, needs(1)]


def report(folder: Path, *options: object) -> dict[str, Any]:
    (only,) = reports(folder, "report_devices.py", *options)
    assert only["on_gpu"]
    return only


def test_one_gpu_has_no_strategy_and_its_memory_grows(tmp_path: Path) -> None:
    found = report(tmp_path, "--devices", "0")
    assert (found["kind"], found["communication"], found["replicas"]) == ("one", "none", 1)
    assert found["gpus"] == ["/physical_device:GPU:0"]
    assert (found["growth"], found["limits"]) == ([True], [])


def test_a_gpu_that_is_split_gives_equal_parts_of_its_memory(tmp_path: Path) -> None:
    """TensorFlow splits none without a limit."""
    found = report(tmp_path, "--devices", "0", "--logical-devices", "2")
    # NCCL cannot talk between parts of one GPU.
    assert (found["kind"], found["communication"], found["replicas"]) == ("mirrored", "copy", 2)
    first, second = found["limits"]
    assert first == second > 100


def test_limits_of_logical_gpus(tmp_path: Path) -> None:
    found = report(tmp_path, "--devices", "0", "--logical-devices", "3", "--memory-limit", "512")
    assert (found["replicas"], found["limits"]) == (3, [512, 512, 512])


def test_a_limit_is_kept(tmp_path: Path) -> None:
    options = ("--devices", "0", "--memory-limit", "512")
    (found,) = reports(tmp_path, "fill_memory.py", *options, arguments=(2048,))
    assert 0 < found["mib"] <= 512


@pytest.mark.parametrize(("options", "limit"), [([], None), (["--memory-limit", "512"], 512)])
def test_workers_share_a_gpu_and_its_memory(options: list[str], limit: int | None, tmp_path: Path) -> None:
    found = reports(tmp_path, "report_devices.py", "--devices", "0", "--nproc", "2", "--share-gpu", *options)
    expected = "nccl" if lets_workers_share_a_gpu(nccl_version()) else "ring"
    assert [(each["kind"], each["communication"], each["replicas"]) for each in found] == 2 * [
        ("multi_worker", expected, 2)
    ]
    assert all(each["on_gpu"] and each["gpus"] == ["/physical_device:GPU:0"] for each in found)
    (first,), (second,) = (each["limits"] for each in found)
    assert first == second and (first == limit if limit else first > 100)


@pytest.mark.parametrize("gpu", range(8))
def test_a_gpu_that_is_asked_for(gpu: int, tmp_path: Path) -> None:
    if gpu >= gpu_count():
        pytest.skip(f"there is no GPU {gpu}")
    assert report(tmp_path, "--devices", str(gpu))["gpus"] == [f"/physical_device:GPU:{gpu}"]


class TestSeveral:
    """On two GPUs or more."""

    pytestmark = needs(2)

    def test_all_gpus_of_one_process_use_nccl(self, tmp_path: Path) -> None:
        found = report(tmp_path, "--nproc", "1")
        assert (found["kind"], found["communication"]) == ("mirrored", "nccl")
        assert found["replicas"] == gpu_count() == len(set(found["gpus"]))
        assert found["growth"] == gpu_count() * [True]

    def test_copies_in_place_of_nccl_as_asked(self, tmp_path: Path) -> None:
        found = report(tmp_path, "--nproc", "1", "--communication", "ring")
        assert (found["kind"], found["communication"]) == ("mirrored", "copy")

    def test_each_gpu_is_split(self, tmp_path: Path) -> None:
        found = report(tmp_path, "--devices", "0,1", "--logical-devices", "2", "--memory-limit", "512")
        assert (found["communication"], found["replicas"], found["limits"]) == ("copy", 4, 4 * [512])

    def test_each_gpu_has_a_worker_where_nobody_says(self, tmp_path: Path) -> None:
        found = reports(tmp_path, "report_devices.py")
        assert [each["gpus"] for each in found] == [[f"/physical_device:GPU:{n}"] for n in range(gpu_count())]
        assert [(each["kind"], each["communication"]) for each in found] == gpu_count() * [("multi_worker", "nccl")]

    @pytest.mark.parametrize(("communication", "chosen"), [("auto", "nccl"), ("nccl", "nccl"), ("ring", "ring")])
    def test_workers_have_the_gpus_dealt_to_them(self, communication: str, chosen: str, tmp_path: Path) -> None:
        found = reports(tmp_path, "report_devices.py", "--nproc", "2", "--communication", communication)
        assert [each["kind"] for each in found] == 2 * ["multi_worker"]
        assert [each["communication"] for each in found] == 2 * [chosen]
        assert all(each["on_gpu"] for each in found)
        first, second = (set(each["gpus"]) for each in found)
        assert not first & second
        assert len(first | second) == gpu_count()
        # TensorFlow has every worker bring as many replicas.
        if gpu_count() % 2 == 0:
            assert [each["replicas"] for each in found] == 2 * [gpu_count()]

    def test_workers_have_of_the_chosen_gpus_alone(self, tmp_path: Path) -> None:
        found = reports(tmp_path, "report_devices.py", "--nproc", "2", "--devices", "0,1")
        assert [each["gpus"] for each in found] == [["/physical_device:GPU:0"], ["/physical_device:GPU:1"]]
        assert [each["replicas"] for each in found] == [2, 2]
