from __future__ import annotations

import pytest
from click.testing import CliRunner

from tfdist.cli.launch import on_ssh
from tfdist.cli.launch.launch_verb import launch
from tfdist.multihost.launching.host_launch import HostLaunch
from tfdist.multihost.launching.start_again import ElasticLaunch


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[HostLaunch]:
    """What was to be launched."""
    found: list[HostLaunch] = []

    def run(launched: HostLaunch, links: object) -> int:
        found.append(launched)
        return 0

    monkeypatch.setattr(on_ssh, "run_host_launch", run)
    return found


def launched(launches: list[HostLaunch], text: str) -> HostLaunch:
    result = CliRunner().invoke(launch, ["--hosts", "h1,h2", *text.split()])
    assert result.exit_code == 0, result.output
    return launches[-1]


def test_every_later_start_of_an_elastic_run_resumes_in_the_same_directory(launches: list[HostLaunch]) -> None:
    """What a script has of the same name stays its own."""
    given = "--min-workers 2 --run-dir runs/a --overwrite --grace 5 train.py --resume=never --overwrite"
    found = launched(launches, given)
    assert "--overwrite" in found.arguments[: found.arguments.index("train.py")]
    assert found.elastic is not None
    assert found.elastic.arguments_again == (
        *("--run-dir=runs/a", "--resume=auto", "--grace=5.0", "--min-workers=2"),
        *("train.py", "--resume=never", "--overwrite"),
    )


def test_an_elastic_run_without_a_directory_gets_one_that_all_starts_know(launches: list[HostLaunch]) -> None:
    found = launched(launches, "--min-workers 2 --rejoin-timeout 7 --max-restarts 1 train.py")
    assert found.elastic is not None and found.elastic.run_dir.startswith("runs/train-")
    assert found.arguments[0] == f"--run-dir={found.elastic.run_dir}"
    assert (found.elastic.rejoin_timeout, found.elastic.restarts, found.detached_run) == (7.0, 1, None)


def test_the_defaults_are_those_of_train(launches: list[HostLaunch]) -> None:
    found = launched(launches, "--min-workers 2 --run-dir a train.py").elastic
    assert found == ElasticLaunch("a", found.arguments_again if found else (), 60.0, 3)
    assert launched(launches, "train.py").elastic is None
