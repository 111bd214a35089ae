from __future__ import annotations

from pathlib import Path

from tfdist.examples import Example, catalog
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
