"""Trains on one device and on the same device split into logical ones, and compares, as a CI job without GPUs would.

    python examples/logical_devices.py --devices 3

The GPU is split when there is one (give each part its memory with --memory-limit), else the CPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "digits.yaml"
TOLERANCE = 1e-4

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--devices", type=int, default=3)
parser.add_argument("--memory-limit", type=int, help="MiB of a logical GPU")
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()


def losses(run_dir: Path, *options: str) -> list[float]:
    """Trains and returns the validation loss of every epoch."""
    command = [sys.executable, "-m", "tfdist", "train", "--run-dir", str(run_dir), *options]
    subprocess.run([*command, "--set", f"fit.epochs={args.epochs}", str(CONFIG)], check=True)
    return json.loads((run_dir / "history.json").read_text())["val_loss"]


limit = ["--memory-limit", str(args.memory_limit)] if args.memory_limit else []
with tempfile.TemporaryDirectory() as folder:
    one = losses(Path(folder) / "one")
    several = losses(Path(folder) / "several", "--logical-devices", str(args.devices), *limit)

difference = max(abs(a - b) / a for a, b in zip(one, several, strict=True))
print(f"largest relative difference of {len(one)} validation losses: {difference:.1e}")
if difference > TOLERANCE:
    sys.exit(f"Expected at most {TOLERANCE}.")
