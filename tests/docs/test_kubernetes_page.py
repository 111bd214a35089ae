"""The commands of the page on Kubernetes run, and the manifest that it shows is what is written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.helpers.pages import DOCS
from tfdist.cli.main import main
from tfdist.cluster.kubernetes import expand_workers

PAGE = (DOCS / "clusters/kubernetes.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    tfdist (manifest .+)$", PAGE, re.MULTILINE)


def run(command: str) -> Result:
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0, result.output
    return result


def test_the_manifest_is_what_is_written() -> None:
    [command] = [each for each in COMMANDS if " -o " not in each and "..." not in each]
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    written = run(command).stdout
    assert written[written.index("---\n") :] == shown


def test_the_first_command_writes_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [command] = [each for each in COMMANDS if " -o " in each]
    run(command)
    [file] = tmp_path.iterdir()
    assert f"kubectl apply -f {file.name}" in PAGE
    assert {each["kind"] for each in yaml.safe_load_all(file.read_text())} == {"NetworkPolicy", "JobSet"}


@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_the_pods_are_called_as_the_table_says(kind: str) -> None:
    written = run(f"manifest {kind} --workers 4 --image a --run-dir-claim runs digits.yaml").stdout
    [pattern] = re.findall(r'value: "(.+:20000)"', written)
    assert len(expand_workers(pattern)) == 4
    assert f"| `{pattern}` |" in PAGE
