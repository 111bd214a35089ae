from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import main
from tfdist.examples import catalog


def test_list_shows_each_with_its_line() -> None:
    result = CliRunner().invoke(main, ["examples", "list"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    for example in catalog():
        assert any(line.split(maxsplit=1) == [example.path, example.text] for line in lines)


@pytest.mark.parametrize(("place", "change"), [(".", ""), ("a folder", "cd 'a folder' && ")])
def test_copy_says_what_to_do_next(place: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["examples", "copy", place])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"next: {change}tfdist train configs/digits.yaml"
    assert Path(place, "configs", "digits.yaml").is_file()
    again = CliRunner().invoke(main, ["examples", "copy", place])
    assert again.output.startswith(f"0 files written into {place}; ")


def test_copy_refuses_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "digits.yaml").write_text("mine")
    result = CliRunner().invoke(main, ["examples", "copy", str(tmp_path)])
    assert result.exit_code == 2
    assert "of the same name and other content: configs/digits.yaml. Nothing was written." in result.stderr
