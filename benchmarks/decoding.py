"""Input pipeline of a host: `python -m benchmarks decoding [--workers N] [--steps N] [--pairs N]`.

An unedited script decodes a folder of JPEGs with `tf.data` and trains a model that takes next to nothing, so that the
pipeline is what it waits for. One worker of the host draws each batch for all; or each decodes its own rows, as workers
of several hosts do; both beside workers that each decode all images. The processor time is that of all workers
together; on a machine where other work is done it says more than the rate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import image_reading

SECONDS = 600
"""Bound of one run."""

Measured = dict[str, float]

WAYS = {"once a host": [], "by each worker for its rows": ["--each", "own"], "by each worker, all": ["--each", "all"]}
"""Where images are decoded, and the options of `decoding_fit`; the others are compared with the last."""


def main(arguments: Sequence[str]) -> int:
    """Parses the command line, runs the pairs, prints them and their medians; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks decoding", description="Times decoding on a host.")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="batches of 64 images that are timed")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args(arguments)
    measured: dict[str, list[Measured]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        photos = image_reading.write_folder(Path(folder))
        for number in range(options.pairs):
            # In turns, so that what else the machine does meets all alike.
            for way in list(WAYS)[:: -1 if number % 2 else 1]:
                found = measure(options.workers, options.steps, photos, Path(folder) / "run", *WAYS[way])
                measured[way].append(found)
                print(f"{way}: {json.dumps(found)}", flush=True)
    *others, base = WAYS
    for way in others:
        print(f"{options.workers} workers, JPEGs decoded {way} / {base}:")
        for what in ("steps_per_second", "processor_seconds_per_step"):
            ratios = [a[what] / b[what] for a, b in zip(measured[way], measured[base], strict=True)]
            medians = [statistics.median(run[what] for run in measured[each]) for each in (way, base)]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"  {what.replace('_', ' ')}: {spread}; medians {medians[0]:.3g} and {medians[1]:.3g}", flush=True)
    return 0


def measure(workers: int, steps: int, photos: str, run: Path, *extra: str) -> Measured:
    """One run.

    Raises:
        subprocess.CalledProcessError: It failed.
        subprocess.TimeoutExpired: It took longer than `SECONDS`.
    """
    target = ["-m", "benchmarks.workers.decoding_fit", photos, "--steps", str(steps), *extra]
    command = [sys.executable, "-m", "tfdist", "train", "--nproc", str(workers), "--run-dir", str(run), "--overwrite"]
    done = subprocess.run([*command, *target], capture_output=True, timeout=SECONDS, text=True)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(line)
