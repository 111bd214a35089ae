"""The table, and both files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.selftest.results import DEVICES, ROW, WORKERS, machine, report, result
from tfdist.errors import UsageError
from tfdist.selftest.layouts import Layout, Layouts
from tfdist.selftest.report_texts import ReportFolder, TableLines, closing, opening, to_markdown
from tfdist.selftest.rows import Row, SelftestSpec, exit_code, failed, not_run
from tfdist.selftest.selftest_report import speed_lines, step_times, topology
from tfdist.verify.replicas.verification_report import ComparisonVerdict

FAILED = failed(ROW, WORKERS, "exit code 4: it crashed", "Traceback\n  ...")
PARTED = result(ComparisonVerdict.PARTED, greatest=0.25, reason="likely cause: this", detail="step  loss")
NOT_RUN = not_run(ROW, WORKERS, "the 60 s of --timeout are over")
TIMES = step_times(
    [
        ("1 device", 1, {"wide": {"seconds": 0.1, "batch": 64}}),
        ("2 devices", 2, {"wide": {"seconds": 0.125, "batch": 128}}),
    ]
)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([result()], 0),
        ([result(), FAILED], 4),
        ([result(), NOT_RUN], 4),
        ([FAILED, PARTED], 6),
        ([NOT_RUN, PARTED], 6),
    ],
)
def test_exit_codes(results: list, code: int) -> None:
    assert exit_code(results) == code
    assert report(*results).code == code


def test_lines_of_the_table_stand_in_columns() -> None:
    lines = TableLines([ROW, Row("a_longer_name", "")])
    head, passed, parted, failed_line = (
        lines.head(),
        *(next(iter(lines.lines(one))) for one in (result(), PARTED, FAILED)),
    )
    assert passed.split() == ["dense", "2", "1", "1.0e-07", "1.0e-05", "same", "2.5", "s", "loss,", "step", "3"]
    assert parted.split()[3:6] == ["2.5e-01", "1.0e-05", "DIFFERS"]
    assert failed_line.split() == ["dense", "2", "2", "-", "-", "FAILED", "-"]
    for word, line in (("same", passed), ("DIFFERS", parted), ("FAILED", failed_line)):
        assert line.index(word) == head.index("verdict")


def test_what_is_said_below_a_line() -> None:
    assert list(TableLines([ROW]).lines(PARTED))[1] == "    likely cause: this"


def test_the_verdict_counts_everything() -> None:
    text = closing(report(result(), result(), PARTED, FAILED, NOT_RUN, times=TIMES))
    assert text.endswith("selftest: 2 same, 1 DIFFERS, 1 FAILED, 1 not run (exit code 6)")
    assert "step  loss" in text and "Traceback" in text
    assert "dense on 2 devices:\nstep  loss" in text
    assert "share the cores" not in text
    assert "share the cores" in closing(report(result(), times=TIMES, gpus=0))


def test_what_is_compared_with_what() -> None:
    found = Layouts(Layout("1 device", 1, 1, (0,)), (DEVICES, WORKERS))
    assert opening(machine(), found, SelftestSpec(compression="bfloat16").run_options) == (
        "tfdist selftest on here (2 x Tester 9000): 2 devices and 2 workers against 1 device, --compression bfloat16\n"
        "  warn: cores: 8 of 16. Give it more.\n"
    )
    noted = opening(machine(), replace(found, notes=("2 workers share.",)), SelftestSpec().run_options)
    assert noted.splitlines()[1] == "  2 workers share."


def test_scaling_is_that_of_samples_a_second() -> None:
    alone, both = TIMES
    assert (alone.scaling, both.scaling) == (1.0, pytest.approx(0.8))
    assert both.rate == pytest.approx(1024)
    assert [line.split() for line in speed_lines(TIMES)][2] == [
        "wide", "2", "devices", "128", "125", "ms", "1,024", "80", "%"]  # fmt: skip
    (without,) = step_times([("2 devices", 2, {"wide": {"seconds": 0.1, "batch": 64}})])
    assert without.scaling is None


def test_markdown_has_all_that_a_stranger_needs() -> None:
    text = to_markdown(report(result(), PARTED, FAILED, times=TIMES, notes=("2 workers share.",)))
    for part in (
        "# tfdist selftest on here (2 x Tester 9000)\n",
        "**Rows give other numbers than one device.** 1 same, 1 DIFFERS, 1 FAILED in 90 s. Exit code 6.",
        "| dense | dense layers \\| all | 2 | 1 | 1.0e-07 | 1.0e-05 | same |",
        "### dense on 2 devices: DIFFERS",
        "```text\nTraceback\n  ...\n```",
        "\n\n2 workers share.\n\n",
        "| driver | 570.1 |",
        "| NCCL | 2.27.3 (nvidia-nccl-cu12) |",
        "| GPU 1 | Tester 9000, 80.0 GiB, compute capability 9.0 |",
        "| processor | A Processor (avx2, avx512f) |",
        "| TensorFlow's own choice of kernels | oneDNN's |",
        "| $NCCL_DEBUG | INFO |",
        "GPU0\t X \tNV4",
        "| cores | warn | 8 of 16 | Give it more. |",
        "| wide | 2 devices | 128 | 125 ms | 1,024 | 80 % |",
    ):
        assert part in text
    for table in (block for block in text.split("\n\n") if block.startswith("|")):
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1


def test_copies_between_gpus_are_in_the_markdown() -> None:
    pairs = [{"source": "GPU:0", "target": "GPU:1", "wrong": 7, "damaged": 0, "bytes_per_second": 2.5e10}]
    document = {"pairs": pairs, "sums": []}
    assert "| GPU:0 | GPU:1 | 7 | 25.0 |" in to_markdown(report(result(document=document)))
    # Between parts of one GPU nothing is copied.
    parts = Layout("2 logical devices", 1, 2, (0,), 2)
    assert "## Copies" not in to_markdown(report(result(document=document, layout=parts)))


def test_times_are_no_comparison() -> None:
    timed = result(greatest=None, allowed=None, where="times below")
    assert "  timed  " in next(iter(TableLines([ROW]).lines(timed)))
    assert closing(report(result(), timed)).endswith("selftest: 1 same, 1 timed (exit code 0)")


def test_json_holds_everything(tmp_path: Path) -> None:
    told = json.loads(json.dumps(report(result(), PARTED, FAILED, times=TIMES).to_json()))
    assert (told["format"], told["exit_code"]) == (1, 6)
    usual = {"batch_norm": "synchronized", "communication": "auto", "compression": "none", "kernels": "auto"}
    assert told["options"] == usual
    assert [row["verdict"] for row in told["rows"]] == ["passed", "parted", "failed"]
    assert told["rows"][2]["detail"] == "Traceback\n  ..."
    assert told["times"][1]["scaling"] == pytest.approx(0.8)
    assert told["machine"]["driver"]["gpus"][1]["name"] == "Tester 9000"
    assert told["machine"]["tensorflow"]["onednn"] is True


def test_a_report_without_gpus_says_so_first() -> None:
    assert to_markdown(report(result(), gpus=0)).startswith("# tfdist selftest on here (no GPU, on the CPU)\n")


def test_a_report_says_with_which_options() -> None:
    assert "Options:" not in to_markdown(report(result()))
    changed = report(result(), options={"batch_norm": "replica", "communication": "ring"})
    assert "Options: `--batch-norm replica --communication ring`\n" in to_markdown(changed)


def test_numbers_that_are_not_finite_are_texts() -> None:
    assert report(result(greatest=float("inf"))).to_json()["rows"][0]["greatest"] == "inf"


def test_reports_go_to_a_new_folder(tmp_path: Path) -> None:
    folder = ReportFolder.chosen(str(tmp_path / "new" / "report"), "here", 0.0)
    assert not (tmp_path / "new").exists()
    markdown, document = folder.write(report(result()))
    assert markdown.read_text().startswith("# tfdist selftest on here (2 x Tester 9000)\n")
    assert json.loads(document.read_text())["exit_code"] == 0
    with pytest.raises(UsageError, match="an earlier report is not replaced"):
        ReportFolder(folder.path)


def test_the_default_folder_is_named_after_host_and_time() -> None:
    path = ReportFolder.chosen(None, "a host/1", 1.7e9).path
    assert path.parent == Path()
    assert path.name.startswith("selftest-a-host-1-2023111")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="cannot be written to"):
        ReportFolder(tmp_path / "closed" / "report")


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "report").touch()
    with pytest.raises(UsageError, match="new or an empty directory"):
        ReportFolder(tmp_path / "report")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["printf", "\\t\\033[4mGPU0\\033[0m\\nGPU0\\t X \\n"], "\tGPU0\nGPU0\t X"),
        (["false"], "not known: false ended with 1"),
    ],
)
def test_topology(command: list[str], text: str) -> None:
    assert topology(command) == text


def test_topology_without_nvidia_smi() -> None:
    assert topology(["nvidia-smi-that-is-not-there"]).startswith("not known: ")
