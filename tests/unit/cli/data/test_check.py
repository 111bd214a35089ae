from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

from tests.unit.cli.data.commands import run, write_records


def test_check() -> None:
    bad = write_records("bad", 3)
    write_records("good", 3)
    bad.write_bytes(bad.read_bytes()[:-1])
    result = run("check good")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 file, 3 records, 57 B: nothing wrong")
    result = run("check good bad --processes 2 --json")
    assert result.exit_code == 5
    document = json.loads(result.stdout)
    assert [(file["path"], file["records"]) for file in document["files"]] == [("bad", 2), ("good", 3)]
    assert document["files"][0]["problems"][0]["offset"] == 38
    assert not multiprocessing.active_children()


def test_check_of_csv_and_text() -> None:
    write_records("good", 3)
    Path("a.csv").write_text("a,kind,y\n1,cat,3\n2,dog\n")
    Path("a.txt").write_text("1\tone\n\ntwo\n")
    result = run("check a.csv a.txt good --processes 1")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (5, "3 files, 4 records, 91 B: 3 problems")
    for problem in ("a.csv, line 2: could not convert string to float: 'cat'", "a.csv, line 3: expected 3 columns"):
        assert problem in result.stdout
    assert "a.txt, line 3: expected an integer label, '\\t' and the text. Received: 'two'" in result.stdout
    assert "1 problem" in run("check a.csv --columns a,y").stdout
    assert run("check a.csv --columns z").exit_code == 5
    assert run("check a.csv --format text --label-separator a").exit_code == 5


def test_check_of_a_folder() -> None:
    assert run("shard a.npz shards --shards 2 --processes 1").exit_code == 0
    result = run("check shards --processes 1")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "2 files, 5 records, 260 B: nothing wrong")
    assert "shards.json" not in result.output
    Path("shards/README.md").touch()
    Path("shards/left").touch()
    result = run("check shards --processes 1")
    assert result.exit_code == 5 and "shards/left: it has 0 bytes" in result.stdout
    assert "left out, by their names no data: README.md" in result.stderr
    document = json.loads(run("check shards --processes 1 --json").stdout)
    assert document["left_out"] == ["shards/README.md"]
    Path("lines").mkdir()
    Path("a.txt").rename("lines/a.txt")
    assert run("index lines").stdout.startswith("1 file, 2 lines: indexed")
