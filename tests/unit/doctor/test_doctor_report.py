from __future__ import annotations

import dataclasses
import json

import pytest

from tfdist.doctor.check_result import CheckStatus, fail, ok, warn
from tfdist.doctor.doctor_report import DoctorReport, render
from tfdist.doctor.mesh.pair import Pair

WORKERS = ("host0:20000", "host1:20000", "host2:20000")
GOOD = Pair((0,), 1, CheckStatus.OK, "host1 answers and agrees", "", 3, "10.0.0.2", 0.00021, -0.003, 5.1e8)
BAD = Pair((1,), 0, CheckStatus.FAIL, "refuses the connection", "Start it there.")


def test_a_report_for_people() -> None:
    checks = (
        ok("versions", "keras 3.15.1: tested"),
        warn("cores", "2 of 2 for 3 worker(s)\nand another line", "Start fewer."),
    )
    assert render(DoctorReport("host0", checks, WORKERS, (GOOD, BAD))) == (
        "tfdist doctor on host0\n"
        "  ok    versions  keras 3.15.1: tested\n"
        "  warn  cores     2 of 2 for 3 worker(s)\n"
        "                  and another line\n"
        "               -> Start fewer.\n"
        "\n"
        "Connections of the 3 workers, each as the host that called found it (bandwidth is rough):\n"
        "  from  to  address                 status  round trip  bandwidth  clock\n"
        "  0     1   host1:20000 (10.0.0.2)  ok      0.21 ms     510 MB/s   -3 ms\n"
        "  1     0   host0:20000             FAIL    -           -          -\n"
        "            refuses the connection\n"
        "         -> Start it there.\n"
        "  Nothing was heard from the host of worker(s) 2 (host2:20000): how it reaches the others is not known.\n"
        "\n"
        "doctor: 2 ok, 1 warn, 1 fail: 1 to 0 (exit code 3)"
    )


def test_many_good_connections_share_one_line() -> None:
    many = tuple(f"10.0.0.{n}:20000" for n in range(8))
    pairs = [
        Pair((i,), j, CheckStatus.OK, "", "", 3, f"10.0.0.{j}", 0.0001 * (i + 1), 0.0, 1e8 * (j + 1))
        for i in range(8)
        for j in range(8)
        if i != j
    ]
    text = render(DoctorReport("host0", (), many, (*pairs, BAD)))
    assert "  56 connections are ok: 0.1 ms to 0.8 ms round trip, 100 MB/s to 800 MB/s\n" in text
    assert text.count("\n  1     0   10.0.0.0:20000  FAIL") == 1
    assert len(text.splitlines()) < 12


def test_no_line_is_wider_than_a_terminal_unless_a_word_is() -> None:
    long = "word " * 80
    text = render(DoctorReport("host0", (fail("memory", long, long),), WORKERS, (BAD, GOOD)))
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("checks", "pairs", "status", "code"),
    [
        ((ok("a", "b"),), (GOOD,), CheckStatus.OK, 0),
        ((warn("a", "b", "c"),), (), CheckStatus.WARN, 0),
        ((fail("a", "b", "c"),), (BAD,), CheckStatus.FAIL, 2),
        ((fail("a", "b", "c", 3),), (), CheckStatus.FAIL, 3),
        ((), (GOOD, BAD), CheckStatus.FAIL, 3),
    ],
)
def test_the_outcome_of_a_report(checks: tuple, pairs: tuple, status: CheckStatus, code: int) -> None:
    report = DoctorReport("host0", checks, WORKERS, pairs)
    assert (report.status, report.code) == (status, code)
    told = json.loads(json.dumps(report.to_json()))
    assert (told["status"], told["exit_code"]) == (status.value, code)
    assert [pair["target"] for pair in told["pairs"]] == [pair.target for pair in pairs]


@pytest.mark.parametrize(("offset", "text"), [(0.0, "+0 ms"), (-0.0042, "-4.2 ms"), (90.04, "+90 s")])
def test_how_far_a_clock_is_ahead(offset: float, text: str) -> None:
    pair = dataclasses.replace(GOOD, offset=offset)
    assert f"510 MB/s   {text}\n" in render(DoctorReport("host0", (), WORKERS, (pair,)))
