"""The files of a release, built from this checkout: what is in them, and that the README runs from the wheel."""

from __future__ import annotations

import email
import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.marks import slow
from tfdist.examples.example_files import example_files
from tfdist.versions import VERSION
from tools import release
from tools.readme_commands import commands, run_all, runnable

README = (release.TREE / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("build") is None, reason='needs build: pip install -e ".[release]"'
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source distribution and a wheel."""
    return release.build(release.TREE, tmp_path_factory.mktemp("dist"), isolated=False)


@pytest.fixture(scope="module")
def python(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and with this environment's packages but tfdist."""
    return release.installed(built[1], tmp_path_factory.mktemp("installed") / "venv", dependencies=False)


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def output(*command: str | Path, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=150).stdout


def test_they_have_the_tracked_files_and_no_others(built: tuple[Path, Path]) -> None:
    assert release.content_problems(release.TREE, *built) == []


def test_a_file_that_is_missing_is_named(built: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, wheel = built
    left_out = "tfdist/examples/files/configs/digits.yaml"
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(tmp_path / wheel.name, "w") as part:
        for name in whole.namelist():
            if name != left_out:
                part.writestr(name, whole.read(name))
        part.writestr("tests/__init__.py", "")
    assert release.content_problems(release.TREE, sdist, tmp_path / wheel.name) == [
        f"{wheel.name} lacks {left_out}",
        f"{wheel.name} has tests/__init__.py, which is no part of it",
    ]


def test_no_link_of_the_description_is_relative(built: tuple[Path, Path]) -> None:
    found = metadata(built[1])
    assert found["Version"] == VERSION
    description = str(found.get_payload(decode=True), "utf-8")
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert [link for link in links if not link.startswith("https://")] == []
    assert "docs/data.md" in description


def test_with_the_address_of_the_source_links_lead_there(built: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(built[0]) as archive:
        # Python 3.11 has had filters since 3.11.4.
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (tree,) = tmp_path.iterdir()
    text = (tree / "setup.cfg").read_text(encoding="utf-8")
    (tree / "setup.cfg").write_text(text.replace("[metadata]\n", "[metadata]\nurl = https://source.example/tfdist\n"))
    (tree / "made").mkdir()
    prepare = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('made')"
    subprocess.run([sys.executable, "-c", prepare], cwd=tree, check=True, capture_output=True, timeout=120)
    description = next(tree.glob("made/*.dist-info/METADATA")).read_text(encoding="utf-8")
    page = f"https://source.example/tfdist/blob/v{VERSION}"
    assert f"({page}/docs/data.md)" in description
    assert f"[what is exact]({page}/README.md#what-is-exact)" in description
    assert re.findall(r"\]\((?!https://)[^)]+\)", description) == []


def test_the_wheel_is_imported_from_its_environment(python: Path, tmp_path: Path) -> None:
    """And not this checkout, however it is installed beside the tests; the examples are those of the wheel."""
    say = "import tfdist, tfdist.examples.example_catalog as i; print(tfdist.__file__, i.examples_root(), sep='\\n')"
    said = output(python, "-I", "-c", say, cwd=tmp_path)
    assert all(Path(line).is_relative_to(python.parents[1]) for line in said.splitlines())
    assert output(python.parent / "tfdist", "--version", cwd=tmp_path) == f"tfdist {VERSION}\n"


@pytest.mark.parametrize("quick", [True, slow(False)])
@pytest.mark.bound(1800)
def test_the_readme_runs_from_the_wheel(quick: bool, python: Path) -> None:
    chosen = commands(README, quick)
    assert [command for command, _ in run_all(chosen, python)] == chosen


@pytest.mark.slow
@pytest.mark.bound(1800)
def test_the_wheel_trains_with_another_tensorflow(built: tuple[Path, Path], tmp_path: Path) -> None:
    """In an environment that is made by the commands of docs/install.md: it downloads tensorflow-cpu."""
    page = (release.TREE / "docs" / "install.md").read_text(encoding="utf-8")
    section = page.partition("## Another build of TensorFlow\n")[2].partition("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    .venv/bin/")]
    assert len(lines) == 4
    subprocess.run([sys.executable, "-m", "venv", tmp_path / ".venv"], check=True, timeout=120)
    for line in lines:
        command = line.replace("--no-deps tfdist", f"--no-deps {built[1]}")
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=900)
    chosen = commands(README, quick=True)
    assert [command for command, _ in run_all(chosen, tmp_path / ".venv" / "bin" / "python")] == chosen


def test_the_commands_are_those_of_the_readme() -> None:
    text = "Text: `tfdist doctor`\n\n    tfdist plan a.yaml   # says it\n    pytest\n    tfdist examples copy .\n"
    assert commands(text) == ["tfdist examples copy .", "tfdist plan a.yaml"]
    assert commands(f"{text}\n    tfdist train a.py\n", quick=True) == commands(text)
    several = runnable("tfdist train --workers host1:20000,host2:20000")
    assert re.fullmatch(r"tfdist train --workers 127.0.0.1:(\d+),127.0.0.1:(?!\1$)(\d+)", several)


def test_a_command_that_fails_is_named_with_what_it_printed() -> None:
    failing: Iterator[tuple[str, float]] = run_all(["echo said; exit 3"], Path(sys.executable))
    with pytest.raises(RuntimeError, match=r"`echo said; exit 3` of README.md ended with code 3:\nsaid"):
        next(failing)


CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n### Added\n\n- A thing.\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (CHANGELOG, []),
        (CHANGELOG.replace("## [Unreleased]\n\n", ""), []),
        (CHANGELOG.replace(" - 2026-01-31", ""), ["has no heading"]),
        (CHANGELOG.replace("1.2.0", "1.1.0"), ["has no heading"]),
        (CHANGELOG.replace("- A thing.\n", ""), ["is empty"]),
        (CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- Another.\n"), ["under [Unreleased]"]),
    ],
)
def test_the_changelog_is_checked(text: str, problems: list[str]) -> None:
    found = release.changelog_problems(text, "1.2.0")
    assert len(found) == len(problems)
    assert all(problem in said for problem, said in zip(problems, found, strict=True))


def test_a_checkout_with_changes_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=150)
    assert release.unready(tmp_path, "1.2.0") == []
    (tmp_path / "new.py").touch()
    subprocess.run(["git", "tag", "v1.2.0"], cwd=tmp_path, check=True, timeout=150)
    changes, tag = release.unready(tmp_path, "1.2.0")
    assert "not committed:\n?? new.py" in changes
    assert "there is a tag v1.2.0 already" in tag


def test_the_files_of_a_rehearsal_are_not_to_be_published() -> None:
    assert release.next_step([], "1.2.0", Path("dist")).endswith("git push origin v1.2.0 && twine upload dist/*")
    rehearsed = release.next_step(["no heading", "a tag"], "1.2.0", Path("dist"))
    assert "twine upload" not in rehearsed and rehearsed.endswith("at the start: 2.")


def test_every_example_is_tracked_by_its_kind() -> None:
    """A new kind of file would be missing in the wheel: list it in tfdist/examples/example_files.py."""
    names = {name for name in release.tracked(release.TREE) if name.startswith(("examples/", "configs/"))}
    assert {name for name in names if not name.endswith(".gitignore")} == names & {
        str(path) for path in example_files(release.TREE)
    }
