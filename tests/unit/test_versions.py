from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tfdist
from tfdist.cli.main import main
from tfdist.versions import VERSION, installed_version


def install(folder: Path, distribution: str, version: str, imported: str) -> None:
    """Puts metadata there as an installer does."""
    place = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (place / "RECORD").write_text(f"{imported}/__init__.py,,\n")
    # What is not there does not count, from Python 3.12 on.
    (folder / imported).mkdir(exist_ok=True)
    (folder / imported / "__init__.py").touch()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all there is to import from, beside Python's own modules, which metadata are read by."""
    own = [path for path in sys.path if path and "site-packages" not in path and Path(path).name != "tests"]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in own if path.startswith(sys.base_prefix))])
    importlib.invalidate_caches()
    return tmp_path


@pytest.mark.parametrize("distribution", ["tensorflow", "tensorflow-cpu", "tf-nightly", "acme-tf"])
def test_tensorflow_is_found_under_the_name_of_any_build(distribution: str, site: Path) -> None:
    install(site, distribution, "2.21.0+acme", "tensorflow")
    assert installed_version("tensorflow") == "2.21.0+acme"
    assert installed_version("keras") is None


def test_a_package_that_is_not_there_has_no_version(site: Path) -> None:
    assert installed_version("tensorflow") is None


def test_the_version_is_the_source_s_own_without_an_installation(site: Path) -> None:
    install(site, "tfdist", "0.0.1", "tfdist")  # what another checkout has left
    assert installed_version("tfdist") == tfdist.__version__ == VERSION


@pytest.mark.parametrize(("started_by", "code", "last"), [("-m", 2, "error: "), ("-c", 1, "ImportError: ")])
def test_an_older_python_is_refused_in_one_line(started_by: str, code: int, last: str) -> None:
    """In a source tree, where pip does not stand before it."""
    script = f"import sys; sys.version_info = (3, 10, 13); sys.argv[0] = {started_by!r}; import tfdist"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=150)
    assert result.returncode == code
    assert result.stderr.splitlines()[-1].startswith(f"{last}tfdist needs Python 3.11 to 3.13. Received: Python ")
    assert code == 1 or len(result.stderr.splitlines()) == 1


def test_the_command_says_it() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"tfdist {VERSION}\n"
