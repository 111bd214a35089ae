"""Rows over several jobs, with stand-in jobs."""

from __future__ import annotations

from collections.abc import Sequence

from tfdist.selftest.rows import JobEnd, RowRun, run_through

FINE = RowRun(seconds=1.0)


class Script:
    """Jobs that end as they are told to; notes what each was asked for."""

    def __init__(self, *ends: JobEnd) -> None:
        self.ends = list(ends)
        self.asked: list[list[str]] = []

    def __call__(self, names: Sequence[str]) -> JobEnd:
        self.asked.append(list(names))
        return self.ends.pop(0)


def test_one_job_runs_all_rows() -> None:
    script = Script(JobEnd({"a": FINE, "b": FINE}))
    assert run_through(["a", "b"], script) == {"a": FINE, "b": FINE}


def test_a_row_that_ends_a_job_has_failed_and_the_next_job_takes_the_rest() -> None:
    script = Script(
        JobEnd({"a": FINE}, "b", "exit code 4: it crashed", "traceback"),
        JobEnd({"c": FINE}, "d", "exit code 4: so did this"),
        JobEnd({"e": FINE}),
    )
    ended = run_through(["a", "b", "c", "d", "e"], script)
    assert script.asked == [["a", "b", "c", "d", "e"], ["c", "d", "e"], ["e"]]
    assert {name for name, run in ended.items() if run == FINE} == {"a", "c", "e"}
    assert ended["b"] == RowRun("exit code 4: it crashed", "traceback")
    assert ended["d"].problem == "exit code 4: so did this"


def test_a_row_that_was_done_on_the_chief_alone_when_the_job_ended_has_failed_too() -> None:
    ended = run_through(["a", "b", "c"], Script(JobEnd({}, "b", "exit code 4: worker 1 died"), JobEnd({"c": FINE})))
    assert [ended[name].problem for name in "abc"] == 2 * ["exit code 4: worker 1 died"] + [""]


def test_a_job_that_begins_no_row_fails_all_of_them_at_once() -> None:
    script = Script(JobEnd({}, None, "exit code 3: the cluster did not form"))
    assert {run.problem for run in run_through(["a", "b"], script).values()} == {
        "exit code 3: the cluster did not form"
    }
    assert len(script.asked) == 1


def test_a_job_that_ends_well_without_its_rows_has_not_run_them() -> None:
    assert run_through(["a"], Script(JobEnd({})))["a"].problem == "it was never begun"
