"""Footers that end the process that reads them."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from tfdist import bounded_process
from tfdist.config.data_sections import ParquetSource
from tfdist.data.files import parquet_footers
from tfdist.data.files.parquet_footers import check_footers, fatal_footers
from tfdist.data.format_registry import measure
from tfdist.data.tools.format_checks import ParquetRules, make_parquet_checker
from tfdist.data.tools.starter.data_kind import parquet_table
from tfdist.errors import DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FATAL = base64.b85decode(
    "P(e~L6#x||6(}qf0u=xi1{DSz7zhCX00000000;W0RR9100000762#+0RR91000007zhCX00000000pY000020000200IC200IL6000000000L1"
    "Q|><02l^yV`yb<VHE-ZGy)g_c@+W`224Bv001=v7zAu-b95B~02Kr!0vHEnY-Md_Zgc<^0vQ|`93}u96$BY21^^j20eJ*$X>)W3Wo%__Wo~p80"
    "2TrkrU4eF0VW7M7zhCX00000000;W0RR9100000762#+0RR91000007zhCX00000000pY02v$=02Kfg0suTICISE%MgRZ+0ssI27N!9f0wxF+r"
    "U3vbAaG%Fadl;MEn{$SEn#wUZ+9SeWpZ<AZ*CwmHZCwOF&P{j0002o0000`K~ga"
)
"""A file with one bit of its footer changed; pyarrow 26 aborts when it is asked for its columns."""


def valid(path: Path) -> Path:
    pq.write_table(pa.table({"x": [0.5], "y": [1]}), path)
    return path


def test_a_file_with_such_a_footer_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "b.parquet"
    damaged.write_bytes(FATAL)
    files = f"{tmp_path}/*.parquet"
    valid(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=f"{damaged} cannot be read as a Parquet file"):
        measure(ParquetSource(format="parquet", files=files, label="y"), "data.train")
    with pytest.raises(DataError, match=f"{damaged} cannot be read as a Parquet file"):
        parquet_table((damaged,))


def test_the_check_of_files_goes_on_after_each(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(FATAL) if number % 2 else valid(path)
    fatal = fatal_footers([*paths, tmp_path / "none.parquet"])
    check = make_parquet_checker(ParquetRules(fatal=fatal))
    found = [check(path, lambda count: None) for path in paths]
    assert [each.records for each in found] == [1, 0, 1, 0]
    assert [problem.reason for each in found for problem in each.problems] == ["unreadable"] * 2
    assert "its footer is damaged" in found[3].problems[0].text


def test_it_is_looked_for_again_only_where_a_file_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = valid(tmp_path / "a.parquet"), []
    run = bounded_process.run
    monkeypatch.setattr(parquet_footers, "run", lambda *args, **kwargs: asked.append(1) or run(*args, **kwargs))
    check_footers((path,))
    check_footers((path,))
    assert len(asked) == 1
    path.write_bytes(FATAL)
    with pytest.raises(DataError, match=r"ends the process that reads it \(SIG"):
        check_footers((path,))
    path.unlink()
    with pytest.raises(DataError, match="Cannot read"):
        check_footers((path,))


@pytest.mark.parametrize("script", ["raise SystemExit(1)", "import time; print(0, flush=True); time.sleep(60)", ""])
def test_a_look_that_fails_otherwise_objects_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(parquet_footers, "_SCRIPT", script)
    monkeypatch.setattr(parquet_footers, "_SECONDS", 0.5)
    check_footers((valid(tmp_path / f"{os.getpid()}-{len(script)}.parquet"),))
