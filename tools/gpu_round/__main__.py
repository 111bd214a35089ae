"""`python -m tools.gpu_round`: a round on this machine's GPU. Exits with 1 where a part failed or a number differs."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.card_facts import card_facts, describe
from tools.gpu_round.machine_options import Machine
from tools.gpu_round.part_runner import Part, PartOutcome, PartRunner
from tools.gpu_round.round_parts import REHEARSED, RoundSize, alone, chosen_rows, together
from tools.gpu_round.round_report import append_line, outcome_fields, report
from tools.gpu_round.row_differences import RowDifference, compare_rows, counts, read_rows
from tools.gpu_round.row_jobs import ROW_JOBS, RowJob

_TOGETHER = 0.45
"""What of the time is for correctness."""

_CORES_A_JOB = 2


class Round:
    """What has come of the parts so far, and the files with it.

    Args:
        folder: Where the files are.
        heading: The first lines of the report.
        size: How large the parts are.
    """

    def __init__(self, folder: Path, heading: Sequence[str], size: RoundSize) -> None:
        self.outcomes: list[PartOutcome] = []
        self.rows: dict[str, list[RowDifference]] = {}
        self._folder, self._heading, self._size = folder, heading, size

    def ended(self, outcome: PartOutcome) -> None:
        """Writes what came of a part, with the rows that can be compared now."""
        self.outcomes.append(outcome)
        append_line(self._folder / "results.jsonl", **outcome_fields(outcome))
        said = f": {outcome.reason.splitlines()[0]}" if outcome.reason else ""
        print(f"{outcome.part} {outcome.verdict}, {outcome.seconds:.0f} s{said}", flush=True)
        for job in self._comparable():
            self.rows[job.name] = self._compared(job)
            append_line(
                self._folder / "results.jsonl", job=job.name, rows=[each.to_json() for each in self.rows[job.name]]
            )
            print(f"{job.name}: {counts(self.rows[job.name])}", flush=True)
        self.write()

    def write(self) -> None:
        """Writes the report of what there is by now; it is whole at any moment."""
        fresh = self._folder / ".report.md"
        fresh.write_text(report(self._heading, self.outcomes, self.rows), encoding="utf-8")
        os.replace(fresh, self._folder / "report.md")

    @property
    def failed(self) -> bool:
        """Whether a part failed, or a number differs."""
        differ = any(each.verdict in ("differs", "raised") for found in self.rows.values() for each in found)
        return differ or any(outcome.verdict == "failed" for outcome in self.outcomes)

    def _comparable(self) -> list[RowJob]:
        ran = {outcome.part for outcome in self.outcomes if outcome.verdict != "not run"}
        return [
            job
            for job in ROW_JOBS
            if job.layout != "one" and job.name not in self.rows and {job.name, job.reference} <= ran
        ]

    def _compared(self, job: RowJob) -> list[RowDifference]:
        workers = 2 if job.layout == "workers" else 1
        _, reference = read_rows(self._folder / job.reference / "rows.0")
        found = [read_rows(self._folder / job.name / f"rows.{index}")[1] for index in range(workers)]
        return compare_rows(chosen_rows(job, self._size), reference, found, job.bound)


def main(arguments: Sequence[str]) -> int:
    """Runs the round; the exit code."""
    begun = time.monotonic()
    options = _options(arguments)
    facts = card_facts()
    if not facts["gpus"] and not options.rehearse:
        print(f"There is no GPU here: {facts['problem']}. Expected one; --rehearse tries the round on CPUs.")
        return 2
    size = REHEARSED if options.rehearse else RoundSize()
    size = size if options.rows is None else dataclasses.replace(size, rows=options.rows)
    machine = Machine(1, emulated=True) if options.rehearse else Machine(len(facts["gpus"]))
    folder = Path(options.out or Path("build", "gpu_round", time.strftime("%Y%m%d-%H%M%S")))
    folder.mkdir(parents=True, exist_ok=False)
    heading = _heading(describe(facts), rehearse=options.rehearse, minutes=options.minutes)
    print("\n".join([*heading, "", f"Results are written to {folder}", ""]), flush=True)
    append_line(folder / "results.jsonl", machine=facts, rehearse=options.rehearse)
    done = Round(folder, heading, size)
    # One GPU, so that every command is one of a machine with one.
    environment = {"TFDIST_EMULATE_GPUS": "nccl,xla,count=1"} if options.rehearse else {}
    deadline = begun + 60 * options.minutes
    runner = PartRunner(folder.absolute(), deadline, environment, done.ended)
    side_by_side = _only(together(machine, size), options.only)
    runner.run_together(side_by_side, options.at_once or _at_once(), begun + _TOGETHER * (deadline - begun))
    runner.run_alone(_only(alone(machine, size), options.only))
    done.write()
    print(f"\n{(folder / 'report.md').read_text()}\nWritten to {folder}/report.md and results.jsonl", flush=True)
    return int(done.failed)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_round", description="A round on this machine's GPU.")
    parser.add_argument("--minutes", type=float, default=8.0, help="how long all of it may take; 8")
    parser.add_argument("--rehearse", action="store_true", help="try it on CPUs, by the paths of GPUs, in tiny sizes")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="LIST", help="these parts alone")
    parser.add_argument("--rows", type=int, metavar="N", help="of each job of rows, the first N; all")
    parser.add_argument("--at-once", type=int, metavar="N", help="jobs side by side; one for each two cores")
    parser.add_argument("--out", metavar="DIR", help="a new folder for the results; below build/gpu_round")
    options = parser.parse_args(arguments)
    names = [part.name for parts in (together, alone) for part in parts(Machine(0), REHEARSED)]
    unknown = [name for name in options.only or () if name not in names]
    if unknown:
        parser.error(f"--only: expected some of {','.join(names)}. Received: {unknown[0]}")
    return options


def _only(parts: Sequence[Part], names: Sequence[str] | None) -> list[Part]:
    return [part for part in parts if names is None or part.name in names]


def _at_once() -> int:
    return max(1, len(os.sched_getaffinity(0)) // _CORES_A_JOB)


def _heading(facts: Sequence[str], *, rehearse: bool, minutes: float) -> list[str]:
    lines = ["# A round on a GPU", "", *facts, f"Within {minutes:g} minutes."]
    return [*lines, "**A rehearsal: tiny sizes, GPUs emulated on CPUs.**"] if rehearse else lines


if __name__ == "__main__":
    # Not at once: what was started is ended first, and what was found stays.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
