from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tfdist.cli.main import main
from tfdist.cli.manifest import OWN, REFUSED, passed_options
from tfdist.cli.train import train

REQUIRED = ["--image", "r/tfdist:1", "--run-dir-claim", "runs"]


def run(*arguments: str, kind: str = "job") -> Result:
    return CliRunner().invoke(main, ["manifest", kind, *arguments])


def container(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    job = list(yaml.safe_load_all(result.stdout))[-1]
    [found] = job["spec"]["template"]["spec"]["containers"]
    return found


def command(result: Result) -> list[str]:
    return container(result)["command"]


OWN_ARGUMENTS = ["--run-dir=/runs/digits", "--resume=auto", "--grace=30"]


def test_the_command_of_a_pod_is_one_that_train_takes() -> None:
    given = ["--set", "fit.epochs=3", "--kernels", "onednn", "--step-timeout", "60", "--verbose"]
    made = command(run(*REQUIRED, *given, "digits.yaml", "--set", "seed=7"))
    assert made[:2] == ["tfdist", "train"]
    assert made[2:] == [
        *OWN_ARGUMENTS,
        *("--kernels=onednn", "--set=fit.epochs=3", "--set=seed=7", "--step-timeout=60.0", "--verbose", "digits.yaml"),
    ]
    with train.make_context("train", made[2:]) as read:
        assert (read.params["resume"], read.params["grace"]) == ("auto", 30.0)
        assert read.params["arguments"] == ("digits.yaml",)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["/app/train.py", "--epochs", "3", "--image", "x"], ["/app/train.py", "--epochs", "3", "--image", "x"]),
        (["-m", "package.digits", "--epochs", "3"], ["-m", "package.digits", "--epochs", "3"]),
        ([], ["tfdist.yaml"]),
    ],
)
def test_targets_need_not_exist_here(target: list[str], expected: list[str]) -> None:
    assert command(run(*REQUIRED, "--name", "digits", *target)) == ["tfdist", "train", *OWN_ARGUMENTS, *expected]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (["digits.yaml"], "digits"),
        (["/app/Train_Big.v2.py"], "train-big-v2"),
        (["-m", "package.digits"], "digits"),
        (["--name", "other", "digits.yaml"], "other"),
    ],
)
def test_the_name_of_a_job(target: list[str], name: str) -> None:
    result = run(*REQUIRED, *target)
    assert f"--run-dir=/runs/{name}" in command(result)
    assert {each["metadata"]["name"] for each in yaml.safe_load_all(result.stdout)} == {name}


@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_every_option_has_its_effect(kind: str) -> None:
    plain = run(*REQUIRED, "digits.yaml", kind=kind).stdout.splitlines()[3:]
    for changed in (
        ["--name", "other"],
        ["--workers", "4"],
        ["--gpus", "1"],
        ["--cpus", "8"],
        ["--memory", "32Gi"],
        ["--shm-size", "2Gi"],
        ["--node-selector", "pool=gpu"],
        ["--run-dir", "/elsewhere/digits"],
        ["--mount", "data:/data"],
        ["--resume", "must"],
        ["--max-restarts", "0"],
        ["--grace", "31"],
        ["--port", "21000"],
        ["--namespace", "team"],
        ["--label", "a=b"],
        ["--run-as", "5:6"],
        ["--service-account", "trainer"],
        ["--image-pull-secret", "registry"],
        ["--env", "A=b=c"],
        ["--env-secret", "A=secret:key"],
        ["--token-secret", "hush"],
        ["--metrics-port", "9400"],
        ["--start-timeout", "60"],
    ):
        result = run(*REQUIRED, *changed, "digits.yaml", kind=kind)
        assert result.exit_code == 0 and result.stdout.splitlines()[3:] != plain, changed


def test_metrics_are_served_where_others_reach_them() -> None:
    assert "--metrics-address=0.0.0.0" in command(run(*REQUIRED, "--metrics-port", "9400", "digits.yaml"))
    given = command(run(*REQUIRED, "--metrics-port", "9400", "--metrics-address", "10.0.0.1", "digits.yaml"))
    assert "--metrics-address=10.0.0.1" in given and "--metrics-address=0.0.0.0" not in given


@pytest.mark.parametrize(("given", "user"), [("5", (5, 5)), ("5:6", (5, 6))])
def test_user_and_group(given: str, user: tuple[int, int]) -> None:
    job = list(yaml.safe_load_all(run(*REQUIRED, "--run-as", given, "digits.yaml").stdout))[-1]
    context = job["spec"]["template"]["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == user


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--run-dir-claim", "runs", "digits.yaml"], "Missing option '--image'"),
        (["--image", "a", "digits.yaml"], "error: The run directory would be lost with its pod"),
        ([*REQUIRED, "4.yaml"], "error: The job cannot be called as its target, '4.yaml': the name becomes"),
        ([*REQUIRED, "--name", "4", "a.yaml"], "error: --name becomes part of host names"),
        ([*REQUIRED, "--workers", "a:1,b:1", "a.yaml"], "'a:1,b:1' is not a valid integer"),
        ([*REQUIRED, "--run-as", "root", "a.yaml"], "expected numbers, UID or UID:GID"),
        ([*REQUIRED, "--env-secret", "A=hush", "a.yaml"], "expected NAME=SECRET:KEY, a Secret that is there"),
        ([*REQUIRED, "--env", "A", "a.yaml"], "expected NAME=VALUE. Received: 'A'"),
        ([*REQUIRED, "--mount", ":/data", "a.yaml"], "expected CLAIM:PATH. Received: ':/data'"),
        ([*REQUIRED, "--mount", "data:data", "a.yaml"], "error: --mount takes a folder of the pods"),
        ([*REQUIRED, "--set", "a=1", "train.py"], "error: --set overrides an entry of a config, and train.py is none"),
        ([*REQUIRED, "--kernels", "x", "a.yaml"], "'x' is not one of"),
        ([*REQUIRED, "--overwrite", "a.yaml"], "No such option '--overwrite'"),
        ([*REQUIRED, "--nproc", "2", "a.yaml"], "No such option '--nproc'"),
        ([*REQUIRED, "--grace", "0", "a.yaml"], "expected a number of seconds above 0"),
        ([*REQUIRED, "a.yaml", "more"], "error: A config takes no arguments"),
        ([*REQUIRED, "--metrics-address", "10.0.0.1", "a.yaml"], "error: --metrics-address says where --metrics-port"),
        ([*REQUIRED, "--log-format", "json", "--progress", "bar", "a.yaml"], "error: --log-format json writes records"),
        ([*REQUIRED, "-o", "none/a.yaml", "a.yaml"], "error: The manifest cannot be written: No such file"),
    ],
)
def test_what_is_refused(arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2 and says in result.output, result.output
    assert list(tmp_path.iterdir()) == []


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "digits.yaml"
    result = run(*REQUIRED, "-o", str(file), "é.yaml", "--name", "digits")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"written; to start it: kubectl apply -f {file}\n"
    given = f"{' '.join(REQUIRED)} -o {file} 'é.yaml' --name digits"
    assert f"#     tfdist manifest job {given}\n" in file.read_text("utf-8")


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_an_elastic_training_is_a_job(kind: str) -> None:
    """Of which each pod is replaced by itself."""
    elastic = [*REQUIRED, "--workers", "3", "--min-workers", "2", "digits.yaml"]
    assert "--min-workers=2" in command(run(*elastic))
    result = run(*elastic, kind=kind)
    assert result.exit_code == 2 and f"Received: --min-workers 2 with {kind}" in result.stderr
    few = run(*REQUIRED, "--workers", "4", "--min-workers", "2", "digits.yaml")
    assert few.exit_code == 2 and "Expected --min-workers 3 or more" in few.stderr


def test_a_file_that_is_no_manifest_is_left_alone(tmp_path: Path) -> None:
    """The config, say, of which a manifest was to be made."""
    file = tmp_path / "digits.yaml"
    file.write_text("name: digits\n")
    result = run(*REQUIRED, "-o", str(file), "digits.yaml")
    assert result.exit_code == 2 and "is there, and tfdist has not made it" in result.stderr
    assert file.read_text() == "name: digits\n"
    file.unlink()
    for workers in ("2", "3"):
        assert run(*REQUIRED, "--workers", workers, "-o", str(file), "digits.yaml").exit_code == 0
    assert "completions: 3" in file.read_text()


def test_help_shows_the_options_of_train_below_its_own() -> None:
    text = run("--help-all").output
    own, _, trains = text.partition("What runs, and where:")
    assert "--run-dir-claim" in own and "--kernels" in trains
    assert text.count("--resume [") == text.count("--run-dir DIR") == text.count("--max-restarts") == 1


def test_every_option_of_train_is_passed_on_or_not_for_a_reason() -> None:
    names = {option.name for option in train.params}
    left = names - {option.name for option in passed_options()}
    assert left == OWN | REFUSED | {"workers", "index", "network", "debug_worker", "arguments", "module"}
