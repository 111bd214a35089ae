from __future__ import annotations

import json
from pathlib import Path

from tools.gpu_round.part_runner import PartOutcome
from tools.gpu_round.result_readers import read_benchmark, read_collectives, read_step, read_tests
from tools.gpu_round.round_report import report
from tools.gpu_round.row_differences import RowDifference

LARGE = {"all_reduce": {"median": 12.0, "low": 11.0, "high": 20.0, "on": "GPU"}}
FACTS = {"replicas": 2, "gpus": 1, "nccl": "nccl", "jit": "auto"}


def test_all_that_came_is_in_the_report() -> None:
    values = [{"function": "all_reduce", "dtype": "int32", "right": False, "device": "CPU"}]
    ran = {"facts": FACTS, "rows": 2, "xla": ["XLA: no"]}
    outcomes = [
        PartOutcome("workers-auto", "two workers", "passed", 31.2, result=ran),
        PartOutcome("collectives", "of tensors", "failed", 9.0, "all_reduce of int32: wrong values",
                    {"values": values, "megabytes": 100, "milliseconds": LARGE}),
        PartOutcome("speed-mlp", "mlp", "cut", 60.0, "it was ended", {"page": "# T\n\n## mlp\n\n| a |\n"}),
        PartOutcome("peers-mlp", "peers", "not run", reason="for lack of time: 3 s were left"),
    ]  # fmt: skip
    rows = {
        "workers-auto": [
            RowDifference("plain", 1e-16, 2e-16, "passed"),
            RowDifference("dropout", 0.1, 0.0, "differs"),
            RowDifference("muon", None, None, "raised", "worker 0: ValueError: no"),
        ]
    }
    page = report(["# A round on a GPU", "", "Card 0: NVIDIA H100, driver 580."], outcomes, rows)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    assert ["workers-auto", "two workers", "1 passed, 1 differs, 1 raised", "31"] in cells
    assert ["plain", "2.0e-16"] in cells and ["dropout", "**1.0e-01**"] in cells and ["muon", "**raised**"] in cells
    assert "- workers-auto: 2 replicas, 1 logical GPU in its chief, over NCCL, --jit auto\n  - XLA: no\n" in page
    assert "- workers-auto, muon: worker 0: ValueError: no" in page
    assert ["all_reduce", "12.0 (11.0 to 20.0)", "GPU"] in cells
    assert ["all_reduce", "int32", "**wrong**", "CPU"] in cells
    assert "### mlp" in page and "- peers-mlp (peers): for lack of time: 3 s were left" in page
    assert "NVIDIA H100" in page and page.count("it was ended") == 1


def test_what_parts_leave_is_read_also_where_they_were_ended(tmp_path: Path) -> None:
    assert read_benchmark(tmp_path).result == {}
    log = tmp_path / "0.log"
    log.write_text("tests/gpu/a.py::test_b[x] PASSED [ 3%]\ntests/gpu/a.py::test_c FAILED\ntests/gpu/a.py::t SKIP")
    tested = read_tests(tmp_path)
    assert (tested.result["passed"], tested.result["skipped"]) == (1, 0)
    assert tested.problems == ("tests/gpu/a.py::test_c",)
    found = {"values": [{"function": "broadcast", "dtype": "int32", "raised": "TypeError: no"}], "megabytes": 1}
    log.write_text(json.dumps(found))
    assert read_collectives(tmp_path).problems == ("broadcast of int32: TypeError: no",)
    logs = tmp_path / "run" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-0.0.log").write_text("XLA service\n" + 2 * "tfdist: XLA compiles it\n")
    (logs / "worker-1.0.log").write_text("tfdist: XLA, says another worker")
    log.write_text('{"rates": [3.0]}')
    assert read_step(tmp_path).result == {"rates": [3.0], "log": ["tfdist: XLA compiles it"]}
