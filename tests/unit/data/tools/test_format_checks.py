from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.data.tools import format_checks
from tfdist.data.tools.file_checks import FileCheck
from tfdist.data.tools.format_checks import CsvRules, TextRules, make_line_checker
from tfdist.errors import DataError


def check(path: Path, rules: CsvRules | TextRules) -> FileCheck:
    advanced: list[int] = []
    found = make_line_checker(rules)(path, advanced.append)
    assert sum(advanced) == found.size == (path.stat().st_size if path.exists() else 0)
    return found


@pytest.mark.parametrize("lines_at_once", [1, 2, 10_000])
def test_bad_rows_of_a_csv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines_at_once: int) -> None:
    monkeypatch.setattr(format_checks, "PART_LINES", lines_at_once)
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b,y\r\n1,2,3\r\n\r\n1,x,3\r\n1,2\r\n4,5,6")
    found = check(path, CsvRules.of([path], None))
    assert found.records == 2
    assert [(problem.record, problem.offset) for problem in found.problems] == [(1, 19), (2, 26)]
    assert [problem.text.partition(":")[0] for problem in found.problems] == [f"{path}, line 4", f"{path}, line 5"]
    assert [problem.record for problem in check(path, CsvRules.of([path], ["a", "y"])).problems] == [2]


def test_csv_files_that_cannot_be_checked(tmp_path: Path) -> None:
    for name, header in (("a", "a,y"), ("b", "y,a")):
        (tmp_path / name).write_text(f"{header}\n1,2\n")
    with pytest.raises(DataError, match="b has other columns"):
        CsvRules.of([tmp_path / "a", tmp_path / "b"], None)
    with pytest.raises(DataError, match="a has no column z"):
        CsvRules.of([tmp_path / "a"], ["z"])


def test_bad_lines_of_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n1::good\nbad\n-2::fine")
    found = check(path, TextRules("::"))
    assert (found.records, [problem.record for problem in found.problems]) == (2, [1])
    assert found.problems[0].text.startswith(f"{path}, line 3: expected an integer label, '::' and the text.")


def test_a_file_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    [problem] = check(tmp_path / "absent", TextRules("\t")).problems
    assert (problem.record, problem.reason) == (None, "unreadable")
