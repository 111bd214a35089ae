"""Judgement of copies and sums: whether all bits arrived, and which way around it works where they did not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.launch.worker_options import Communication
from tfdist.selftest.layouts import Layout
from tfdist.selftest.rows import Row, RowResult, RowRun, failed
from tfdist.text import format_count
from tfdist.verify.replicas.verification_report import ComparisonVerdict

_SHOWN = 6
_SYSTEM = (
    "Copies between these GPUs arrive damaged: peer to peer is broken on this machine, most often by an IOMMU or ACS. "
    "Turn them off for the GPUs (kernel parameter iommu=pt or amd_iommu=off, ACS in the BIOS), or pass the GPUs to the "
    "virtual machine together. TensorFlow has no switch for its own copies: until then train with one worker a GPU."
)


@dataclass(frozen=True)
class Way:
    """A way around broken copies.

    Attributes:
        words: As a user says it.
        variables: Environment variables, name and value.
        communication: Collectives; None for those of the options.
    """

    words: str
    variables: tuple[tuple[str, str], ...] = ()
    communication: Communication | None = None


WAYS = (
    Way("NCCL_P2P_DISABLE=1 in the environment", (("NCCL_P2P_DISABLE", "1"),)),
    Way(
        "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 in the environment",
        (("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1")),
    ),
    Way("--communication ring", communication="ring"),
)
"""From the fastest to the slowest. The first two are NCCL's own switches; the last one does without NCCL."""


def judge_copies(row: Row, layout: Layout, run: RowRun) -> RowResult:
    """Returns whether all copies and sums of a layout are right."""
    if run.problem:
        return failed(row, layout, run.problem, run.detail, run.seconds)
    pairs = [pair for found in run.found for pair in found["pairs"]]
    sums = [one for found in run.found for one in found["sums"]]
    document = {"pairs": pairs, "sums": sums}
    if not pairs and not sums:
        return failed(row, layout, "nothing was copied", seconds=run.seconds)
    bad = [pair for pair in pairs if pair["wrong"] or pair["damaged"]]
    wrong = [one for one in sums if one["wrong"]]
    if not bad and not wrong:
        where = f"{format_count(len(pairs), 'pair')}, {format_count(len(sums), 'sum')}"
        return RowResult(row, layout, ComparisonVerdict.PASSED, 0.0, 0.0, where, document=document, seconds=run.seconds)
    lines = [_pair_line(pair) for pair in bad]
    lines += [f"sum of {one['elements']:,} numbers: {one['wrong']:,} are wrong" for one in wrong]
    where = f"{len(bad)} of {format_count(len(pairs), 'pair')}, {len(wrong)} of {format_count(len(sums), 'sum')}"
    return RowResult(
        row,
        layout,
        ComparisonVerdict.PARTED,
        allowed=0.0,
        where=where,
        reason=_advice(bad),
        detail="\n".join(lines),
        document=document,
        seconds=run.seconds,
    )


def _pair_line(pair: Mapping[str, Any]) -> str:
    if pair["damaged"]:
        return f"{pair['source']}: {pair['damaged']:,} numbers are others on the way to it and back"
    return f"{pair['source']} to {pair['target']}: {pair['wrong']:,} numbers arrive as others"


def _advice(bad: Sequence[Mapping[str, Any]]) -> str:
    damaged = sorted({pair["source"] for pair in bad if pair["damaged"]})
    if damaged:
        return (
            f"{', '.join(damaged[:_SHOWN])}: numbers change between the host and the GPU itself. Its memory, slot or "
            "cable is broken: leave it out with --devices."
        )
    return _SYSTEM if bad else "The collectives sum wrong."


def find_way(row: Row, workers: Layout, as_it_is: RowResult, attempt: Callable[[Way], RowRun]) -> str:
    """Looks for a way around broken copies: one worker a GPU, where TensorFlow itself copies nothing between GPUs.

    Returns:
        What works, in words.
    """
    if as_it_is.verdict is ComparisonVerdict.PASSED:
        return f"Train with --nproc {workers.workers}: that works here."
    for way in WAYS:
        if judge_copies(row, workers, attempt(way)).verdict is ComparisonVerdict.PASSED:
            return f"Train with --nproc {workers.workers} and {way.words}: that works here."
    tried = "; ".join(way.words for way in WAYS)
    return f"None of these works with --nproc {workers.workers}: {tried}."
