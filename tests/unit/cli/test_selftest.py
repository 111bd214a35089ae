from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.unit.selftest.results import machine, report, result
from tfdist.cli.main import main
from tfdist.cli.selftest import selftest
from tfdist.errors import WorkerFailedError
from tfdist.selftest import selftest as module
from tfdist.selftest.layouts import layouts
from tfdist.selftest.rows import SelftestSpec
from tfdist.selftest.selftest import Listener
from tfdist.selftest.selftest_report import SelftestReport
from tfdist.verify.replicas.verification_report import ComparisonVerdict
from tfdist.verify.runs import Interrupted


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SelftestSpec]:
    """What would have been run; each comes to one row that differs."""
    received: list[SelftestSpec] = []

    def run(spec: SelftestSpec, listener: Listener) -> SelftestReport:
        received.append(spec)
        parted = result(ComparisonVerdict.PARTED)
        listener.tell("running")
        listener.begin(machine(), layouts(2, None, None, None))
        listener.result(parted)
        return report(parted)

    monkeypatch.setattr(module, "run_selftest", run)
    return received


def run(arguments: str = "") -> Result:
    return CliRunner().invoke(main, ["selftest", *arguments.split()])


def test_the_flags_are_a_contract() -> None:
    options = [param for param in selftest.params if isinstance(param, click.Option)]
    assert {name for option in options for name in option.opts} == {
        *("--devices", "--logical-devices", "--nproc", "--only", "-o", "--output", "--json", "--timeout", "--verbose"),
        *("--batch-norm", "--communication", "--compression", "--kernels"),
    }
    assert {option.name: option.default for option in options}["timeout"] == 1800


def test_options_reach_the_selftest(asked: list[SelftestSpec]) -> None:
    run("--devices 0,2 --logical-devices 2 --nproc 3 --only dense --only copies --timeout 60 --verbose -o out")
    run("--batch-norm replica --communication ring --compression float16 --kernels onednn")
    only = ("dense", "copies")
    assert asked == [
        SelftestSpec(devices=(0, 2), logical_devices=2, nproc=3, only=only, timeout=60.0, verbose=True),
        SelftestSpec(batch_norm="replica", communication="ring", compression="float16", kernels="onednn"),
    ]


def test_a_table_as_it_goes_two_files_and_the_exit_code(asked: list[SelftestSpec], tmp_path: Path) -> None:
    done = run("-o out/report")
    assert done.exit_code == 6
    assert "DIFFERS" in done.stdout
    assert done.stdout.endswith(
        "selftest: 1 DIFFERS (exit code 6)\nreport: out/report/report.md; the file to send: out/report/report.json\n"
    )
    begun, *told = done.stderr.splitlines()
    assert "take about five minutes on two cores, 1800 s at most (--timeout)" in begun and told == ["running"]
    assert json.loads((tmp_path / "out/report/report.json").read_text())["exit_code"] == 6
    assert (tmp_path / "out/report/report.md").read_text().startswith("# tfdist selftest")


def test_json_alone_is_on_standard_output(asked: list[SelftestSpec]) -> None:
    done = run("--json -o out")
    assert json.loads(done.stdout)["rows"][0]["verdict"] == "parted"
    assert "DIFFERS" in done.stderr


def test_an_earlier_report_is_not_replaced(asked: list[SelftestSpec], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("earlier")
    done = run("-o out")
    assert done.exit_code == 2
    assert "an earlier report is not replaced" in done.stderr
    assert not asked


def test_an_unknown_row(asked: list[SelftestSpec]) -> None:
    done = run("--only densely")
    assert done.exit_code == 2
    assert "Did you mean dense?" in done.stderr


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (Interrupted(130), 130, "stopped: nothing was written"),
        (WorkerFailedError("TensorFlow does not work here"), 4, "error: TensorFlow does not work here"),
    ],
)
def test_what_ends_it_early_leaves_nothing(
    raised: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise raised

    monkeypatch.setattr(module, "run_selftest", fail)
    done = run()
    assert done.exit_code == code
    assert said in done.stderr
    assert not list(tmp_path.iterdir())
