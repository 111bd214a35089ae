""""""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.examples import Example, catalog, copy_examples, example_catalog
from tfdist.examples.example_files import example_files


def test_every_kind_says_its_own_first_line(tmp_path: Path) -> None:
    files = {
        "configs/a.yaml": "# A config.\nname: a\n",
        "examples/b.py": '"""A script.\n\nMore of it.\n"""\n',
        "examples/silent.py": "print()\n",
        "examples/c/README.md": "# A folder\n\nMore of it.\n",
        "examples/c/train.py": '"""Part of the folder."""\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert catalog(tmp_path) == [
        Example("configs/a.yaml", "A config."),
        Example("examples/b.py", "A script."),
        Example("examples/c/", "A folder"),
        Example("examples/silent.py", ""),
    ]


def test_those_of_this_installation_all_say_something() -> None:
    found = {example.path: example.text for example in catalog()}
    assert {"configs/digits.yaml", "examples/keras_script.py", "examples/image_classifier/"} <= found.keys()
    assert all(found.values())


def test_what_trying_them_leaves_behind_is_no_part_of_them(tmp_path: Path) -> None:
    for name in (
        *("examples/a/train.py", "examples/a/reviews.txt", "examples/a/shards/README.md", "configs/runs/x/config.yaml"),
        *("examples/__pycache__/a.py", "examples/.ipynb_checkpoints/a.ipynb", "configs/a.yaml", "other/a.yaml"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(path) for path in example_files(tmp_path)] == ["configs/a.yaml", "examples/a/train.py"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small set of examples."""
    for name in ("configs/a.yaml", "examples/b.py", "examples/data/c.npz"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_bytes(name.encode())
    return tmp_path / "root"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_has_them_all(root: Path, tmp_path: Path) -> None:
    done = copy_examples(tmp_path / "new" / "folder", root)
    assert contents(tmp_path / "new" / "folder") == contents(root)
    assert len(done.written) == 3 and done.present == ()


def test_what_is_missing_is_added_to_what_is_there(root: Path, tmp_path: Path) -> None:
    copy_examples(tmp_path / "there", root)
    (tmp_path / "there" / "examples" / "b.py").unlink()
    (tmp_path / "there" / "train.py").write_text("the user's")
    done = copy_examples(tmp_path / "there", root)
    assert [str(path) for path in done.written] == ["examples/b.py"]
    assert len(done.present) == 2
    assert contents(tmp_path / "there") == {**contents(root), "train.py": b"the user's"}


@pytest.mark.parametrize("kind", ["file", "directory", "dangling link"])
def test_nothing_is_overwritten(kind: str, root: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "examples" / "data").mkdir(parents=True)
    other = there / "examples" / "data" / "c.npz"
    if kind == "file":
        other.write_text("the user's")
    elif kind == "directory":
        other.mkdir()
    else:
        other.symlink_to(tmp_path / "absent")
    before = contents(there)
    with pytest.raises(UsageError, match=r"of the same name and other content: examples/data/c.npz. Nothing"):
        copy_examples(there, root)
    assert contents(there) == before
    assert not (tmp_path / "absent").exists()


def test_a_file_that_comes_in_between_is_not_overwritten(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"

    def somebody_writes(folder: Path, others: list[Path]) -> None:
        (folder / "examples").mkdir(parents=True)
        (folder / "examples" / "b.py").write_text("the user's")

    monkeypatch.setattr(example_catalog, "_refuse_others", somebody_writes)
    with pytest.raises(UsageError, match="cannot be written into .*File exists .*b.py"):
        copy_examples(there, root)
    assert (there / "examples" / "b.py").read_text() == "the user's"


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_file_in_the_place_of_the_folder_is_named(place: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("the user's")
    with pytest.raises(UsageError, match=r"cannot be written into .*taken.* Give another."):
        copy_examples(tmp_path / place, root)
    assert (tmp_path / "taken").read_text() == "the user's"


def test_half_a_file_does_not_stay(root: Path, tmp_path: Path) -> None:
    """As on a disk that is full: the next copy would take it for the user's."""
    (root / "examples" / "data" / "c.npz").write_bytes(os.urandom(200_000))
    there = tmp_path / "there"
    import resource
    import signal

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UsageError, match="File too large"):
            copy_examples(there, root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not (there / "examples" / "data" / "c.npz").exists()
    copy_examples(there, root)
    assert contents(there) == contents(root)


def test_an_installation_without_them_says_how_to_have_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(example_catalog, "IN_WHEEL", tmp_path / "files")
    monkeypatch.setattr(example_catalog, "SOURCE_TREE", tmp_path)
    with pytest.raises(UsageError, match=r"has no examples.* pip install --force-reinstall --no-deps tfdist"):
        copy_examples(tmp_path / "there")


def test_this_installation_has_them(tmp_path: Path) -> None:
    copy_examples(tmp_path)
    assert example_files(tmp_path) == example_files(example_catalog.examples_root())
