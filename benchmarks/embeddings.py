"""`python -m benchmarks embeddings`: a table cut between workers beside one that each of them has whole.

One model, one optimizer, the same batches: samples a second, and the most memory of a worker above what it had before
the model. The default is quick; the table of `--rows 2e7 --workers 4` is 2.4 GiB, and Adagrad's state as much again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison.host_facts import describe, host_facts
from benchmarks.comparison.markdown_table import markdown_table

_MIB = 2**20
_CONTESTANTS = {"sharded": ["--shard-embeddings", "1"], "replicated": []}


def main(arguments: Sequence[str]) -> int:
    """Runs the contestants one after another, prints a table, and returns the exit code."""
    options = _options(arguments)
    if options.out is not None and not options.out.parent.is_dir():
        print(f"--out: there is no directory {options.out.parent}. Make it, or choose another file.", file=sys.stderr)
        return 2
    settings = {name: getattr(options, name) for name in ("rows", "dim", "batch", "steps", "optimizer")}
    found = {name: _run(name, settings, options.workers, options.limit) for name in options.contestants.split(",")}
    lines = [*_heading(settings, options.workers), *_table(found)]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0 if all(isinstance(each, list) for each in found.values()) else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks embeddings", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rows", type=_rows, default=200_000, help="of the table: 2e5")
    parser.add_argument("--dim", type=int, default=32, help="numbers of a row: 32")
    parser.add_argument("--workers", type=int, default=2, help="on this machine: 2")
    parser.add_argument("--batch", type=int, default=4096, help="samples of a step, over all workers: 4096")
    parser.add_argument("--steps", type=int, default=20, help="that are timed: 20")
    parser.add_argument("--optimizer", default="adagrad", help="Keras's name of it: adagrad")
    parser.add_argument("--contestants", default="sharded,replicated", type=_known, help="in which order to run them")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for each: 900")
    parser.add_argument("--out", type=Path, help="a file for the table, too")
    options = parser.parse_args(arguments)
    for name in ("rows", "dim", "workers", "batch", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: expected a whole number of 1 or more. Received: {getattr(options, name)}")
    return options


def _rows(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"expected a number of rows, such as 2e7. Received: {text!r}") from None


def _known(text: str) -> str:
    unknown = [name for name in text.split(",") if name not in _CONTESTANTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(_CONTESTANTS)}. Received: {', '.join(unknown)}")
    return text


def _run(name: str, settings: dict[str, Any], workers: int, limit: float) -> list[dict[str, float]] | str:
    """What each worker has written; or why there is nothing."""
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        out = Path(folder) / "said"
        train = [sys.executable, "-m", "tfdist", "train", "--nproc", str(workers), *_CONTESTANTS[name]]
        target = ["-m", "benchmarks.workers.embedding_fit", str(out), json.dumps(settings)]
        command = [*train, "--show", "none", "--run-dir", f"{folder}/run", *target]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return f"took more than {limit:g} s"
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            return said[-1] if said else f"ended with exit code {done.returncode} and said nothing"
        return [json.loads(Path(f"{out}.{worker}").read_text()) for worker in range(workers)]


def _heading(settings: dict[str, Any], workers: int) -> list[str]:
    table = settings["rows"] * settings["dim"] * 4 / _MIB
    said = f"{settings['rows']:,} rows of {settings['dim']} floats ({table:,.0f} MiB), {settings['optimizer']}"
    return [*describe(host_facts(), None), f"{said}, {workers} workers, {settings['batch']} samples a step.", ""]


def _table(found: dict[str, list[dict[str, float]] | str]) -> list[str]:
    rows = [["table", "samples/s", "most memory of a worker, MiB", "loss"]]
    for name, said in found.items():
        if isinstance(said, str):
            rows.append([name, "failed", said, ""])
            continue
        peak = max(each["peak"] for each in said) / _MIB
        rows.append([name, f"{min(each['samples'] for each in said):,.0f}", f"{peak:,.0f}", f"{said[0]['loss']:.6f}"])
    return markdown_table(rows, "lrrr")
