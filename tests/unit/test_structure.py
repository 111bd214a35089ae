"""No folder and no file of tfdist stands in a circle of imports; context variables do not become more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.structure import ROOT, Structure, circles, structure_of
from tools.structure_variables import ContextVariable

MOST_CONTEXT_VARIABLES = 12
"""Fewer are better: what a function needs it is better given."""

MOST_ATTACHED_NAMES = 29
"""Fewer are better: what is known of one object is better one record."""

MOST_FILES_OF_AN_OPTION = 17
"""Options are handed on as one `WorkerOptions`: what acts on an option names it, and what checks it."""


@pytest.fixture(scope="module")
def structure() -> Structure:
    return structure_of(ROOT)


def test_no_folder_imports_one_that_imports_it(structure: Structure) -> None:
    assert structure.mutual_folders == []
    assert circles(structure.of_folders) == []


def test_no_file_imports_one_that_imports_it(structure: Structure) -> None:
    assert circles(structure.files) == []


def test_context_variables_do_not_become_more(structure: Structure) -> None:
    assert len(structure.context_variables) <= MOST_CONTEXT_VARIABLES
    assert [variable for variable in structure.context_variables if not variable.set_by or not variable.read_by] == []


def test_contributing_says_what_each_context_variable_is_for(structure: Structure) -> None:
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    modules = [variable.module.replace(".", "/") for variable in structure.context_variables]
    paths = [module.removeprefix("tfdist/keras_repairs/").removeprefix("tfdist/") for module in modules]
    assert [path for path in paths if f"`{path}.py`" not in said] == []


def test_attached_names_do_not_become_more(structure: Structure) -> None:
    assert len(structure.attached) <= MOST_ATTACHED_NAMES


def test_options_are_handed_on_whole(structure: Structure) -> None:
    counts = structure.files_of_options
    assert "shard_over" in counts and max(counts.values()) <= MOST_FILES_OF_AN_OPTION, counts


def test_folders_of_tests_import_only_from_those_that_hold_none() -> None:
    shared = ("helpers", "exactness", "random_trial")
    found = structure_of(ROOT, "tests")
    crossing = [
        f"{module} imports {other}"
        for module, imported in found.files.items()
        for other in imported
        if other.split(".")[1:2] != module.split(".")[1:2] and other.split(".")[1] not in shared
    ]
    assert found.files and crossing == []


def test_circles_are_found(tmp_path: Path) -> None:
    sources = {
        "__init__.py": "",
        "a/__init__.py": "",
        "a/one.py": "from package.b import two\nflag = contextvars.ContextVar('flag')\nflag.get()\n",
        "b/__init__.py": "from package.a.one import flag",
        "b/two.py": "import package.b.inner.three\n",
        "b/inner/__init__.py": "",
        "b/inner/three.py": "from package.b import two  # a folder and one inside of it may\nshard_over = 1\n",
        "c.py": "from package.a.one import flag as mark\nsetting(mark, 1)\nNOTE = AttachedValue('note')\n",
    }
    for name, source in sources.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    found = structure_of(tmp_path, "package")
    assert found.mutual_folders == [("package.a", "package.b")]
    assert circles(found.of_folders) == [["package.a", "package.b"]]
    assert circles(found.files) == [["package.b.inner.three", "package.b.two"]]
    assert found.context_variables == [ContextVariable("flag", "package.a.one", ("package.c",), ("package.a.one",))]
    assert found.attached == [("note", "package.c")]
    assert found.files_with("--shard-over") == ["package.b.inner.three"]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({}, []),
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "b", "b": "c", "c": "a", "d": "a"}, [["a", "b", "c"]]),
        ({"a": "bc", "b": "a", "c": "d", "d": "c"}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_groups_that_reach_each_other(graph: dict[str, str], expected: list[list[str]]) -> None:
    assert sorted(circles({name: frozenset(others) for name, others in graph.items()})) == expected
