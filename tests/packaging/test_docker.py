"""The Dockerfiles: by hadolint where it is installed, built where a Docker engine answers."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = sorted((ROOT / "tools" / "docker").glob("*/Dockerfile"))


HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def docker_engine() -> bool:
    """Whether there is a Docker that can build."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, timeout=150, check=False).returncode == 0


@pytest.mark.skipif(HADOLINT is None, reason='needs hadolint: pip install -e ".[release]"')
@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_hadolint_finds_nothing(file: Path) -> None:
    said = subprocess.run([str(HADOLINT), "--no-color", file], capture_output=True, text=True, timeout=150, check=False)
    assert (said.returncode, said.stdout) == (0, "")


@pytest.mark.slow
@pytest.mark.bound(3600)
@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_the_image_is_built_and_trains(file: Path, tmp_path: Path) -> None:
    if not docker_engine():
        pytest.skip("no Docker engine answers")
    tag = f"tfdist-test:{file.parent.name}"
    subprocess.run(["docker", "build", "-f", file, "-t", tag, ROOT], check=True, timeout=3000)
    run = ["docker", "run", "--rm", "--init", "--user", "12345:12345", "--entrypoint", "sh"]
    script = "tfdist examples copy /tmp/ex && tfdist train /tmp/ex/configs/digits.yaml --run-dir /tmp/run"
    subprocess.run([*run, tag, "-c", script], check=True, timeout=600)


def test_the_context_has_all_that_the_wheel_is_built_from() -> None:
    """Else the build of the image, which few run, would fail, or its wheel would lack something."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert kept >= {"setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "tfdist", "examples", "configs"}
    assert all((ROOT / name).exists() for name in kept)


def test_the_line_of_tensorflow_is_where_the_cpu_image_changes_it() -> None:
    dockerfile = (ROOT / "tools" / "docker" / "cpu" / "Dockerfile").read_text()
    pattern = re.search(r"sed -i 's/(\S+ *\S+)/(.*)/'", dockerfile)
    assert pattern and len(re.findall(pattern[1], (ROOT / "setup.cfg").read_text(), re.MULTILINE)) == 1


def test_the_page_lists_what_is_installed_beside_another_tensorflow() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    required = metadata["options"]["install_requires"].split()
    page = (ROOT / "docs" / "install.md").read_text()
    listed = [set(re.findall(r'"([^"]+)"', line)) for line in page.splitlines() if ".venv/bin/pip install" in line]
    others = {requirement for requirement in required if not requirement.startswith("tensorflow")}
    (tensorflow,) = set(required) - others
    assert others in listed
    assert {tensorflow.replace("tensorflow", "tensorflow-cpu", 1)} in listed
