from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.cli.train_target import Target, choose_target, separate
from tfdist.errors import UsageError

VALUED = {"--nproc", "--workers", "-m"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ""),
        ("--nproc 2", "--nproc 2"),
        ("a.py", "-- a.py"),
        ("a.py --epochs 3 --nproc 4", "-- a.py --epochs 3 --nproc 4"),
        ("--nproc 2 a.py --epochs 3", "--nproc 2 -- a.py --epochs 3"),
        ("--nproc=2 a.py --epochs 3", "--nproc=2 -- a.py --epochs 3"),
        ("--overwrite a.py --epochs 3", "--overwrite -- a.py --epochs 3"),  # a flag takes no value
        ("--nproc a.py b.py", "--nproc a.py -- b.py"),  # its value, whatever it looks like
        ("a.py -- --epochs", "-- a.py -- --epochs"),
        ("-- a.py --epochs 3", "-- a.py --epochs 3"),
        ("--nproc 2 -m pkg.mod --epochs 3", "--nproc 2 -m pkg.mod -- --epochs 3"),
        ("-m pkg.mod a.yaml --nproc 2", "-m pkg.mod -- a.yaml --nproc 2"),
        ("-mpkg.mod --epochs 3", "-mpkg.mod -- --epochs 3"),
        ("-m pkg.mod", "-m pkg.mod"),
        ("-m", "-m"),
        ("a.yaml --nproc 2", "a.yaml --nproc 2"),  # after a config options may follow
        ("--nproc 2 a.yml --set a=b", "--nproc 2 a.yml --set a=b"),
        ("- --epochs", "- --epochs"),
    ],
)
def test_what_follows_a_script_is_its_own(arguments: str, expected: str) -> None:
    assert separate(arguments.split(), VALUED) == expected.split()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "folder").mkdir()


@pytest.mark.parametrize(
    ("module", "arguments", "expected", "name"),
    [
        (None, ["train.py", "--epochs", "3"], Target("script", "train.py", ("--epochs", "3")), "train"),
        (None, ["./train.py"], Target("script", "./train.py"), "train"),
        (None, ["configs/digits.yaml"], Target("config", "configs/digits.yaml"), "digits"),
        (None, ["digits.YML"], Target("config", "digits.YML"), "digits"),
        ("pkg.mod", ["--epochs", "3"], Target("module", "pkg.mod", ("--epochs", "3")), "mod"),
        ("pkg.mod", ["a.yaml"], Target("module", "pkg.mod", ("a.yaml",)), "mod"),
    ],
)
def test_choose_target(module: str | None, arguments: list[str], expected: Target, name: str) -> None:
    target = choose_target(module, arguments)
    assert target == expected
    assert target.name == name


def test_the_default_is_tfdist_yaml(tmp_path: Path) -> None:
    (tmp_path / "tfdist.yaml").touch()
    assert choose_target(None, []) == Target("config", "tfdist.yaml")


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (None, [], r"no target was given, and the default ./tfdist.yaml does not exist. Expected a config"),
        (None, ["absent.py"], "The script absent.py cannot be read: No such file or directory. Expected a config"),
        (None, ["folder"], "The script folder cannot be read: Is a directory"),
        (None, ["a.yaml", "b.yaml"], "A config takes no arguments.*Received: b.yaml"),
        ("pkg/mod.py", [], "-m expected the dotted name of a module.*Received: 'pkg/mod.py'"),
        ("", [], "-m expected the dotted name of a module"),
    ],
)
def test_targets_that_cannot_be(module: str | None, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_target(module, arguments)
