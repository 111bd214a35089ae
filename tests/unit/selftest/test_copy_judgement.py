from __future__ import annotations

from typing import Any

import pytest

from tests.unit.selftest.results import DEVICES, WORKERS, result
from tfdist.selftest.copy_judgement import WAYS, Way, find_way, judge_copies
from tfdist.selftest.rows import Row, RowRun
from tfdist.verify.replicas.verification_report import ComparisonVerdict

COPIES = Row("copies", "copies")


def pair(source: str, target: str, wrong: int = 0, damaged: int = 0) -> dict[str, Any]:
    return {"source": source, "target": target, "wrong": wrong, "damaged": damaged, "bytes_per_second": 1e9}


def summed(wrong: int = 0) -> dict[str, Any]:
    return {"elements": 1024, "wrong": wrong, "bytes_per_second": 1e9}


def found(*pairs: dict[str, Any], sums: tuple[dict[str, Any], ...] = (summed(),)) -> RowRun:
    return RowRun(found=({"pairs": list(pairs), "sums": list(sums)},))


def test_all_bits_arrive() -> None:
    judged = judge_copies(COPIES, DEVICES, found(pair("GPU:0", "GPU:1"), pair("GPU:1", "GPU:0")))
    assert (judged.verdict, judged.greatest, judged.allowed) == (ComparisonVerdict.PASSED, 0.0, 0.0)
    assert judged.where == "2 pairs, 1 sum"
    assert len(judged.document["pairs"]) == 2


def test_a_broken_pair_is_named_with_its_remedy() -> None:
    judged = judge_copies(COPIES, DEVICES, found(pair("GPU:0", "GPU:1", wrong=2000), pair("GPU:1", "GPU:0")))
    assert (judged.verdict, judged.where) == (ComparisonVerdict.PARTED, "1 of 2 pairs, 0 of 1 sum")
    assert judged.detail == "GPU:0 to GPU:1: 2,000 numbers arrive as others"
    assert "iommu=pt" in judged.reason


def test_a_gpu_that_changes_what_it_holds_is_not_blamed_on_the_others() -> None:
    judged = judge_copies(COPIES, DEVICES, found(pair("GPU:0", "GPU:1", wrong=5, damaged=5)))
    assert judged.reason.startswith("GPU:0: numbers change between the host and the GPU itself.")
    assert "on the way to it and back" in judged.detail


def test_a_wrong_sum_of_any_worker() -> None:
    run = RowRun(found=({"pairs": [], "sums": [summed()]}, {"pairs": [], "sums": [summed(3)]}))
    judged = judge_copies(COPIES, WORKERS, run)
    assert (judged.verdict, judged.where) == (ComparisonVerdict.PARTED, "0 of 0 pairs, 1 of 2 sums")


@pytest.mark.parametrize("run", [RowRun("it crashed"), RowRun(found=({"pairs": [], "sums": []},))])
def test_what_copied_nothing_has_failed(run: RowRun) -> None:
    assert judge_copies(COPIES, WORKERS, run).verdict is ComparisonVerdict.FAILED


def test_workers_that_work_as_they_are() -> None:
    as_it_is = result(row=COPIES, layout=WORKERS)
    assert (
        find_way(COPIES, WORKERS, as_it_is, lambda way: pytest.fail("tried"))
        == "Train with --nproc 2: that works here."
    )


def test_ways_are_tried_from_the_fastest_to_the_slowest() -> None:
    tried: list[Way] = []

    def attempt(way: Way) -> RowRun:
        tried.append(way)
        return found(sums=(summed(wrong=0 if way is WAYS[1] else 9),))

    broken = result(ComparisonVerdict.PARTED, row=COPIES, layout=WORKERS)
    words = find_way(COPIES, WORKERS, broken, attempt)
    assert (
        words
        == "Train with --nproc 2 and NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 in the environment: that works here."
    )
    assert tried == list(WAYS[:2])


def test_no_way() -> None:
    broken = result(ComparisonVerdict.FAILED, row=COPIES, layout=WORKERS)
    words = find_way(COPIES, WORKERS, broken, lambda way: RowRun("it crashed"))
    assert words.startswith("None of these works with --nproc 2: NCCL_P2P_DISABLE=1 in the environment;")
    assert words.endswith("--communication ring.")
