"""kubectl reads what was written: no server is asked, as `--local` says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.clusters.kubernetes.test_manifests import REQUIRED
from tfdist.cli.main import main

TEXTS = ["y", "on", "1e3", "012", "0o7", "1_000", "1:30", ".inf", "~", "", "a: b", "# a", "a\nb", "é", "'", '"', "\\"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_reads_the_same_texts(tmp_path: Path) -> None:
    """Its parser takes some for numbers and truth values that PyYAML does not."""
    file = tmp_path / "a.yaml"
    variables = [f"--env=V{number}={text}" for number, text in enumerate(TEXTS)]
    result = CliRunner().invoke(main, ["manifest", "job", *REQUIRED, *variables, "-o", str(file), "a.py", *TEXTS])
    assert result.exit_code == 0, result.output
    command = ["kubectl", "label", "--local", "-f", str(file), "read=yes", "-o", "json"]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=environ)
    assert done.returncode == 0, done.stderr
    read = all_of(done.stdout)
    written = list(yaml.safe_load_all(file.read_text()))
    assert [each["kind"] for each in read] == ["NetworkPolicy", "Service", "Job"]
    for theirs, ours in zip(read, written, strict=True):
        assert theirs["metadata"]["labels"].pop("read") == "yes"
        assert differences(ours, theirs) == []
    [container] = read[-1]["spec"]["template"]["spec"]["containers"]
    assert [each.get("value", "") for each in container["env"]][1:] == TEXTS
    assert container["command"][-len(TEXTS) :] == TEXTS


def all_of(text: str) -> list[dict[str, Any]]:
    """JSON objects, one behind another."""
    found = []
    while text := text.lstrip():
        document, end = json.JSONDecoder().raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """The places at which they have not what we wrote; they may leave out empty texts, and add what is empty."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = [name for name, each in ours.items() if each != ""]
        return [text for name in names for text in differences(ours[name], theirs.get(name), f"{place}/{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [text for index, pair in pairs for text in differences(*pair, f"{place}/{index}")]
    return [] if ours == theirs else [f"{place}: {ours!r} {theirs!r}"]
