"""Command line of the benchmarks: `python -m benchmarks [MODEL ... | data | images] [--pairs N]`.

`ddp`, `decoding`, `first-step`, `all-reduce`, `embeddings`, `gpu`, `scale`, `sharding`, `tensor` and `context` have
options of their own, as `python -m benchmarks ddp --help` lists them.

One device: `fit` under tfdist against the same `fit` in plain Keras (a ratio of 1.00 says that tfdist costs nothing).
Two workers: `fit` under tfdist against whatever command `--peer` gives, such as a hand-written loop.
`data`: TFRecord files of 1 kB records read in random order by tfdist against in sequence by TensorFlow, and against
whatever command `--peer` gives for the same files, such as PyTorch's DataLoader.
`images`: a folder of JPEGs decoded and augmented by tfdist against the same in plain tf.data.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import all_reduce, ddp, decoding, embeddings, first_step, image_reading, record_reading, sharding
from benchmarks.gpu import command as gpu
from benchmarks.model_sizes import SIZES
from benchmarks.paired_commands import compare
from benchmarks.scale import command as scale
from tfdist.launch.worker import worker_variables

_COMPARISONS = {
    "ddp": ddp.main,
    "decoding": decoding.main,
    "first-step": first_step.main,
    "all-reduce": all_reduce.main,
    "embeddings": embeddings.main,
    "gpu": gpu.main,
    "scale": scale.main,
    "sharding": partial(sharding.main, sharding.SHARDING),
    "tensor": partial(sharding.main, sharding.TENSOR),
    "context": partial(sharding.main, sharding.CONTEXT),
}
_STEPS = {"mlp": 2000, "cnn": 100, "wide": 40, "transformer": 100, "embedding": 100}
_WORKER_STEPS = {"mlp": 400, "cnn": 60, "wide": 30, "transformer": 60, "embedding": 60}


def main() -> None:
    """Parses the command line, runs the pairs, prints the ratios."""
    if sys.argv[1:2] and sys.argv[1] in _COMPARISONS:
        sys.exit(_compare_in_rounds(sys.argv[1], sys.argv[2:]))
    about = f"Ratios of steps a second, in pairs. {', '.join(_COMPARISONS)}: see each with --help."
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=about)
    parser.add_argument("models", nargs="*", default=["mlp"], help=f"{', '.join(SIZES)}; or data; or images")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, help="steps that are timed")
    parser.add_argument(
        "--peer", help="time two workers against this command, with {model} and {steps} filled in; data: with {files}"
    )
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        if options.models == ["data"]:
            _compare_readers(Path(folder), options.pairs, options.peer)
        elif options.models == ["images"]:
            _compare_image_readers(Path(folder), options.pairs)
        else:
            _compare_all(options, Path(folder) / "run")


def _compare_in_rounds(name: str, arguments: list[str]) -> int:
    # Not at once: what was started is ended first.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        return _COMPARISONS[name](arguments)
    except KeyboardInterrupt:
        print("Interrupted. What it had measured before is written where it said.", file=sys.stderr)
        return 128 + signal.SIGINT


def _compare_readers(folder: Path, pairs: int, peer: str | None) -> None:
    files = record_reading.write_files(folder)
    # With the settings that workers have.
    env = ["env", *(f"{name}={value}" for name, value in worker_variables.allocator_settings({}).items())]
    ours, theirs = ([*env, *_reader("benchmarks.record_reading", reader, files)] for reader in ("tfdist", "tensorflow"))
    for options, what in (([], "records"), (["--parse"], "records with their features")):
        ratio = compare([*ours, *options], [*theirs, *options], pairs=pairs)
        print(f"{what}, in random order by tfdist / in sequence by TensorFlow: {ratio}", flush=True)
    if peer:
        ratio = compare(ours, [*env, *shlex.split(peer.format(files=shlex.quote(files)))], pairs=pairs)
        print(f"records, in random order by tfdist / peer: {ratio}", flush=True)


def _compare_image_readers(folder: Path, pairs: int) -> None:
    photos = image_reading.write_folder(folder)
    ours, theirs = (_reader("benchmarks.image_reading", reader, photos) for reader in ("tfdist", "tensorflow"))
    ratio = compare(ours, theirs, pairs=pairs)
    print(f"JPEGs decoded and augmented by tfdist / by plain tf.data: {ratio}", flush=True)


def _reader(module: str, reader: str, files: str) -> list[str]:
    return [sys.executable, "-m", module, reader, files]


def _compare_all(options: argparse.Namespace, run_dir: Path) -> None:
    for model in options.models:
        if options.peer:
            steps = options.steps or _WORKER_STEPS[model]
            peer = shlex.split(options.peer.format(model=model, steps=steps))
            ratio = compare(_tfdist(run_dir, model, steps, "--nproc", "2"), peer, pairs=options.pairs)
            print(f"{model}, two workers under tfdist / peer: {ratio}", flush=True)
        else:
            steps = options.steps or _STEPS[model]
            ratio = compare(_tfdist(run_dir, model, steps), _plain(model, steps), pairs=options.pairs)
            print(f"{model}, one device under tfdist / plain Keras: {ratio}", flush=True)


def _plain(model: str, steps: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.fit", model, str(steps), "--cores", _cores()]


def _tfdist(run_dir: Path, model: str, steps: int, *options: str) -> list[str]:
    target = ["-m", "benchmarks.fit", model, str(steps), "--cores", _cores()]
    return [sys.executable, "-m", "tfdist", "train", "--overwrite", "--run-dir", str(run_dir), *options, *target]


def _cores() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


if __name__ == "__main__":
    main()
