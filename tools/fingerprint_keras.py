"""Compares the functions of Keras and TensorFlow that tfdist repairs or relies on with those that it was tested with.

    python tools/fingerprint_keras.py                               names those that are others in this environment
    python tools/fingerprint_keras.py --against other/bin/python    shows what in them differs from that environment
    python tools/fingerprint_keras.py --accept Model.export ...     adds them, as they are here, to the table
    python tools/fingerprint_keras.py --accept all

The table is tfdist/keras_repairs/fingerprints.py. It notes with every fingerprint the versions that have it, so that
`--accept` is also to be run, with nothing to name, in an environment of a new version whose functions are all the same.
A function that is accepted is one whose repair was read beside it, and whose rows were run: CONTRIBUTING.md says how.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfdist.keras_repairs.keras_function import KerasFunction

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

TABLE = ROOT / "tfdist" / "keras_repairs" / "fingerprints.py"

Table = Mapping[str, Mapping[str, str]]
"""Path of a function -> its fingerprints -> the versions of its package that have it, such as `3.12 3.13`."""


def main() -> None:
    """Compares, and writes what is accepted; ends with 1 where a function is unknown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="PYTHON", help="the interpreter of an environment with other versions")
    parser.add_argument("--accept", metavar="PATH", nargs="*", help="functions to add to the table, or `all`")
    parser.add_argument("--codes", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    codes = codes_here()
    if args.codes:
        print(json.dumps(codes))
        return
    from tfdist.keras_repairs.assumed_functions import assumed_functions
    from tfdist.keras_repairs.fingerprints import FINGERPRINTS

    found = fingerprints_here()
    unknown = [path for path, fingerprint in found.items() if fingerprint not in FINGERPRINTS.get(path, {})]
    if args.accept is not None:
        accepted = unknown if args.accept == ["all"] else args.accept
        if absent := sorted(set(accepted) - set(found)):
            sys.exit(f"Nothing is known as {', '.join(absent)}. Expected paths as this tool prints them.")
        added = {path: found[path] for path in found if path not in unknown or path in accepted}
        TABLE.write_text(written(with_versions(FINGERPRINTS, added, versions_here())), encoding="utf-8")
        unknown = [path for path in unknown if path not in accepted]
    others = codes_of(args.against) if args.against else {}
    reliances = {reliance.path: reliance.by for reliance in assumed_functions()}
    for path in unknown:
        print(path)
        if path in reliances:
            print(f"  relied on by {reliances[path]}")
        if path in others or args.against:
            print(difference(others.get(path, ""), codes[path]))
    sys.exit(1 if unknown else 0)


def versions_here() -> dict[str, str]:
    """Package -> the first two numbers of its version."""
    import keras
    import tensorflow as tf

    found = {"keras": keras.__version__, "tensorflow": tf.__version__}
    return {package: ".".join(version.split(".")[:2]) for package, version in found.items()}


def fingerprints_here() -> dict[str, str]:
    """Path -> fingerprint, of every function of this environment that is repaired or relied on."""
    from tfdist.keras_repairs.keras_versions import fingerprint

    return {path: fingerprint(function) for path, function in _functions().items()}


def codes_here() -> dict[str, str]:
    """Path -> source, without comments and docstrings; empty where the function is not there."""
    from tfdist.keras_repairs.keras_versions import code_of_function

    found = _functions()
    return {path: "" if function is None else code_of_function(function) for path, function in found.items()}


def codes_of(python: str) -> dict[str, str]:
    """The same of another environment."""
    command = [python, str(Path(__file__).resolve()), "--codes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{python} could not be asked:\n{done.stderr[-2000:]}")
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _functions() -> dict[str, object]:
    """The functions as Keras and TensorFlow have them, also where the repairs are installed."""
    found = {known.path: known.function for known in _known()}
    return {path: getattr(function, "__wrapped__", function) for path, function in found.items()}


def packages() -> dict[str, str]:
    """Path -> the package of the function."""
    return {known.path: known.package for known in _known()}


def _known() -> list[KerasFunction]:
    from tfdist.keras_repairs.assumed_functions import assumed_functions
    from tfdist.keras_repairs.registry import repairs

    return [*(repair for repair in repairs() if repair.is_checked), *assumed_functions()]


def with_versions(table: Table, found: Mapping[str, str], versions: Mapping[str, str]) -> Table:
    """The table with the fingerprints that were found in these versions."""
    merged = {path: dict(known) for path, known in table.items()}
    of_package = packages()
    for path, fingerprint in found.items():
        known = merged.setdefault(path, {})
        noted = {*known.get(fingerprint, "").split(), versions[of_package[path]]}
        known[fingerprint] = " ".join(sorted(noted, key=_numbers))
    return merged


def written(table: Table) -> str:
    """The module that holds the table."""
    lines = [_HEAD]
    for path, known in sorted(table.items()):
        entries = [f'"{fingerprint}": "{versions}"' for fingerprint, versions in sorted(known.items(), key=_latest)]
        line = f'    "{path}": {{{", ".join(entries)}}},'
        if len(line) > 120:
            line = "\n".join([f'    "{path}": {{', *(f"        {entry}," for entry in entries), "    },"])
        lines.append(line)
    return "\n".join([*lines, "}\n"])


def difference(before: str, now: str) -> str:
    """What has changed, as `diff -u` shows it."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "there", "here", lineterm="")
    return "\n".join(f"  {line}" for line in lines)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _latest(entry: tuple[str, str]) -> tuple[int, ...]:
    return tuple(-number for number in _numbers(entry[1].split()[-1]))


_HEAD = '''"""Fingerprints of what tfdist repairs in Keras and relies on, as `keras_versions.fingerprint` takes them.

Each function has those of the versions that the repairs were tested with. Written by tools/fingerprint_keras.py.
"""

from __future__ import annotations

FINGERPRINTS: dict[str, dict[str, str]] = {'''


if __name__ == "__main__":
    main()
