"""The commands of README.md, as a user runs them one after another in an empty folder with tfdist installed.

    python tools/readme_commands.py --quick    # here, with the tfdist of this environment, in a temporary folder
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
BOUND = 1200.0
"""Seconds that one command may take; a selftest is the longest, some minutes on two cores."""

_QUICK = re.compile(
    r"tfdist (examples|config|plan|status|ledger|checkpoints|evaluate|predict)\b.*"
    r"|tfdist train configs/digits.yaml --run-dir \S+"
)
"""Commands that leave out most trainings; those that remain read the run of the one."""

_PHOTOS = """
import pathlib
import numpy as np
import tensorflow as tf
for label in ("cats", "dogs"):
    folder = pathlib.Path("photos", label)
    folder.mkdir(parents=True)
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, [32, 40, 3], dtype=np.uint8)
        (folder / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
"""
"""Makes what the README takes as there: a folder of photos."""


def commands(readme: str, quick: bool = False) -> list[str]:
    """The commands of tfdist in the README's code blocks, in its order, each once and without its comment; the
    copy of the examples comes first.

    Args:
        readme: The text.
        quick: Only those that need one training in all.
    """
    lines = re.findall(r"^    (tfdist .*)", readme, re.MULTILINE)
    found = dict.fromkeys(line.partition(" #")[0].strip() for line in lines)
    # The README takes the user's own train.py as there; here it is one of the examples.
    in_order = sorted(found, key=lambda command: not command.startswith("tfdist examples copy"))
    return [command for command in in_order if not quick or _QUICK.fullmatch(command)]


def runnable(command: str) -> str:
    """A command with addresses of this machine in place of the hosts that the README names."""
    hosts = re.findall(r"\bhost\d+:\d+", command)
    with_ports = dict(zip(hosts, _free_ports(len(hosts)), strict=True))
    return re.sub(r"\bhost\d+:\d+", lambda found: f"127.0.0.1:{with_ports[found[0]]}", command)


def run_all(chosen: list[str], python: Path) -> Iterator[tuple[str, float]]:
    """Runs commands in a new, empty folder, as from a shell in which an environment is active.

    Args:
        chosen: Commands of the README, in its order.
        python: The environment's interpreter.

    Yields:
        Each command that has ended with code 0, and its seconds.

    Raises:
        RuntimeError: One has not; with what it printed.
    """
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environ["PATH"] = f"{python.parent}{os.pathsep}{environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="tfdist-readme-") as folder:
        if any(" photos " in command for command in chosen):
            make = [python, "-c", _PHOTOS]
            subprocess.run(make, cwd=folder, env=environ, check=True, capture_output=True, timeout=BOUND)
        for command in chosen:
            begin = time.monotonic()
            _run(runnable(command), folder, environ)
            if command.startswith("tfdist examples copy"):
                shutil.copy(Path(folder, "examples", "keras_script.py"), Path(folder, "train.py"))
                shutil.copytree(Path(folder, "examples", "data"), Path(folder, "data"))
            yield command, time.monotonic() - begin


def _run(command: str, folder: str, environ: dict[str, str]) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env=environ, stdout=printed, stderr=printed, start_new_session=True
        )
        try:
            code = process.wait(BOUND)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code != 0:
            printed.seek(0)
            ended = f"took longer than {BOUND:g} s" if code is None else f"ended with code {code}"
            raise RuntimeError(f"`{command}` of README.md {ended}:\n{printed.read()[-5000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> None:
    """Runs them with this interpreter's environment, and prints how long each takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only those that need one training in all")
    args = parser.parse_args()
    for command, seconds in run_all(commands(README.read_text("utf-8"), args.quick), Path(sys.executable)):
        print(f"{seconds:6.1f} s  {command}", flush=True)


if __name__ == "__main__":
    main()
