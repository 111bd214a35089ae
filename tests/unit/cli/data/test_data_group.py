from __future__ import annotations

import pytest

from tests.unit.cli.data.commands import run


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("shard a.dat out", 2, "What a.dat is cannot be told from its name. Expected a name that ends in .npz, .csv,"),
        ("shard absent out", 5, "No such file or directory: absent (working directory: "),
        ("shard a.parquet out", 2, "a.parquet is parquet, of which no shards are made. Expected npz, csv,"),
        ("shard a.tar out", 2, "A config reads such files as they are: format: webdataset."),
        ("shard a.csv out", 2, "--label is missing"),
        ("shard images out", 2, "--size is missing"),
        ("shard images out --size 5", 2, "expected HEIGHT,WIDTH in pixels, such as 224,224. Received: '5'"),
        ("shard images out --size 0,5", 2, "expected HEIGHT,WIDTH"),
        ("shard a.npz out --label y", 2, "--label is no option of npz"),
        ("shard a.npz out --label-separator ,", 2, "--label-separator is no option of npz"),
        ("shard a.csv out --label y --columns a,,b", 2, "expected names, such as a,b,c"),
        ("shard a.csv out --label y --columns a,y", 2, "columns: expected none to be the label"),
        ("shard a.npz out --name ../b", 2, "--name: expected the beginning of a file name"),
        ("shard a.npz out --shards 6", 2, "at most one for each of 5 samples"),
        ("shard a.npz a.csv", 2, "Expected DEST to be a directory"),
        ("shard absent.npz out", 5, "absent.npz: No such file"),
        ("shard images out --size 5,5", 5, "No image below"),
        ("shard a.csv out --label z", 5, "a.csv has no column z"),
        ("check absent*", 5, "No file matches absent*"),
        ("index images", 5, "images has no file to read"),
        ("check", 2, "Missing argument"),
        ("predict absent.keras -o said", 2, "There is no model absent.keras. Expected a run directory with a model"),
        ("predict absent.keras", 2, "Missing option '-o' / '--output'"),
    ],
)
def test_mistakes(arguments: str, code: int, message: str) -> None:
    result = run(arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
