"""Tries whether tests notice small defects: changes one thing at a time in a module, and runs the tests of its room.

A change that no test notices is a mutant that survives: a test is missing, or the change makes no difference.

    pip install "cosmic-ray>=8.7,<9"
    python tools/try_mutants.py tfdist/order
    python tools/try_mutants.py tfdist/order --again                     # those that survived, after tests were added
    python tools/try_mutants.py tfdist/keras_repairs/loop/step_logs.py --tests tests/devices/test_step_logs.py

It works on a copy of the working tree, one process at a time. Results are kept in build/mutants.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "mutants"
COPIED = ("tfdist", "tests", "tools", "benchmarks", "setup.cfg", "pyproject.toml")

MOST_SECONDS = 300.0
LEAST_SECONDS, LEAST_PROCESSOR_SECONDS = 60.0, 5.0
"""Tests of a mutant may take five times as long as those of the unchanged module, and at least so long."""

EQUIVALENT = ROOT / "tools" / "equivalent_mutants.txt"
"""Mutants that make no difference: `path: the changed line`, one a line; what follows the last ` # ` says why."""

OPERATORS = re.compile(
    r"core/(ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Add|Div_Mul|FloorDiv_Mul|Mod_Mul|Pow_Mul|RShift_LShift|LShift_RShift"
    r"|BitOr_BitAnd|BitAnd_BitOr|BitXor_BitOr)"
    r"|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt|Is_IsNot"
    r"|IsNot_Is)"
    r"|ReplaceUnaryOperator_(Delete_Not|Delete_USub|Delete_Invert)"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|AddNot|ReplaceBreakWithContinue"
    r"|ReplaceContinueWithBreak|ExceptionReplacer|NumberReplacer|RemoveDecorator|ZeroIterationForLoop)"
)
"""Each operator turned into its neighbour and its opposite: others of Cosmic Ray's say nothing more."""

NUMBERS = "core/NumberReplacer"


Place = tuple[int, int]
"""Line, from 1, and column."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        modules: The modules to change, from the root.
        tests: Files and folders of tests; empty for those that mirror a module's folder.
        python: The interpreter that has the project's dependencies.
        again: Whether to try only those that survived the last time.
        sample: How many mutants of a module to try at most; None for all.
    """

    modules: tuple[Path, ...]
    tests: tuple[Path, ...]
    python: str
    again: bool
    sample: int | None

    def tests_of(self, module: Path) -> list[str]:
        """The tests to run: those of the module's own file first, as most mutants are noticed there."""
        room = Path("tests/unit", *module.parts[1:-1])
        own = room / f"test_{module.name}"
        return [str(path) for path in (self.tests or (own, room)) if (ROOT / path).exists()]


def main() -> None:
    options = _options()
    counts = {}
    with _copy_of_the_tree() as copy, TestRuns(options.python, copy) as runs:
        os.chdir(copy)  # Cosmic Ray names modules from here.
        for module in options.modules:
            tests = options.tests_of(module)
            if tests:
                counts[module] = _try_all(module, tests, runs, options)
                _print_counts({module: counts[module]})
            else:
                print(f"{module}: no tests mirror it, give --tests")
    _print_counts(counts)


class TestRuns:
    """Runs tests on what the copy of the tree holds at the time.

    Args:
        python: The interpreter that has the project's dependencies.
        copy: The copy.
    """

    def __init__(self, python: str, copy: Path) -> None:
        self._process = subprocess.Popen(
            [python, str(copy / "tools" / "forked_tests.py")],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._limits: dict[str, tuple[float, float]] = {}

    def __enter__(self) -> TestRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def notice(self, tests: Sequence[str]) -> str | None:
        """How the tests notice a change: "killed" or "timed out"; None where they pass. The first ones run first."""
        for test in tests:
            code, _ = self._run(test, *self._limits[test])
            if code != 0:
                return "timed out" if code is None else "killed"
        return None

    def measure(self, tests: Sequence[str]) -> None:
        """Sets the limits of tests; they must pass on what is unchanged."""
        for test in tests:
            if test not in self._limits:
                self._run_unchanged(test)  # which compiles
                taken, computed = self._run_unchanged(test)
                self._limits[test] = max(LEAST_SECONDS, 5 * taken), max(LEAST_PROCESSOR_SECONDS, 5 * computed)

    def _run_unchanged(self, test: str) -> tuple[float, float]:
        begun = time.monotonic()
        code, computed = self._run(test, MOST_SECONDS, MOST_SECONDS, compiles=True)
        if code != 0:
            raise SystemExit(f"{test} fails without any change, or takes longer than {MOST_SECONDS:g} s")
        return time.monotonic() - begun, computed

    def _run(
        self, test: str, seconds: float, processor_seconds: float, compiles: bool = False
    ) -> tuple[int | None, float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"tests": [test], "seconds": seconds, "processor_seconds": processor_seconds, "compiles": compiles}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code, computed = json.loads(self._process.stdout.readline())
        return code, computed


def _options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="+", type=Path, help="modules, or folders of modules")
    parser.add_argument("--tests", nargs="+", type=Path, default=[], help="default: the tests that mirror the folder")
    parser.add_argument("--python", default=sys.executable, help="runs the tests; default: this one")
    parser.add_argument("--again", action="store_true", help="try those that survived the last time")
    parser.add_argument("--sample", type=int, help="try so many mutants of a module at most, the same each time")
    given = parser.parse_args()
    modules = tuple(module for path in given.path for module in _modules(path))
    return Options(modules, tuple(given.tests), given.python, given.again, given.sample)


def _modules(path: Path) -> Iterator[Path]:
    path = path.resolve().relative_to(ROOT)
    for module in sorted((ROOT / path).rglob("*.py")) if (ROOT / path).is_dir() else [ROOT / path]:
        if module.name != "__init__.py":
            yield module.relative_to(ROOT)


@contextlib.contextmanager
def _copy_of_the_tree() -> Iterator[Path]:
    """A copy of the files that git knows or could know, where modules are changed and what runs has its cache."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *COPIED],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        yield Path(folder)


def _try_all(module: Path, tests: Sequence[str], runs: TestRuns, options: Options) -> collections.Counter[str]:
    """Tries the mutants of one module and prints those that survive; returns how many came to which end."""
    content = module.read_bytes()
    session = KEPT / f"{'.'.join(module.with_suffix('').parts)}.{hashlib.sha256(content).hexdigest()[:8]}.sqlite"
    session.parent.mkdir(parents=True, exist_ok=True)
    equivalent = _equivalent_lines(module)
    ends: collections.Counter[str] = collections.Counter()
    with use_db(str(session)) as results:
        if not results.num_work_items:
            init([module], results, {})
        known = dict(results.results)
        for mutant in _chosen(results, content.decode(), options.sample):
            result = known.get(mutant.job_id)
            if result is None or (options.again and result.test_outcome == TestOutcome.SURVIVED):
                runs.measure(tests)
                result = _tried(mutant, tests, runs)
                results.set_result(mutant.job_id, result)
            end = _end(result, equivalent)
            ends[end] += 1
            if end == "survived":
                print(f"{mutant.mutations[0].module_path}:{mutant.mutations[0].start_pos[0]}: survives", flush=True)
                print("  - {}\n  + {}".format(*_changed_lines(result.diff or "")), flush=True)
    return ends


def _tried(mutant: WorkItem, tests: Sequence[str], runs: TestRuns) -> WorkResult:
    (mutation,) = mutant.mutations
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    with use_mutation(mutation.module_path, operator, mutation.occurrence) as (before, after):
        end = runs.notice(tests)
        changes = difflib.unified_diff(before.splitlines(), (after or before).splitlines(), lineterm="", n=0)
        outcome = TestOutcome.SURVIVED if end is None else TestOutcome.KILLED
        return WorkResult(WorkerOutcome.NORMAL, output=end, test_outcome=outcome, diff="\n".join(changes))


def _chosen(results: WorkDB, source: str, sample: int | None) -> list[WorkItem]:
    """The mutants that say something, in the order of their places."""
    idle = _idle_places(ast.parse(source))
    items = []
    for item in results.work_items:
        (mutation,) = item.mutations
        name, place = mutation.operator_name, tuple(mutation.start_pos)
        if OPERATORS.fullmatch(name) and not any(
            begin <= place < end and (name == NUMBERS or not only_numbers) for begin, end, only_numbers in idle
        ):
            items.append(item)
    items.sort(key=_order)
    if sample is not None and sample < len(items):
        chosen = set(random.Random(0).sample(range(len(items)), sample))
        items = [item for place, item in enumerate(items) if place in chosen]
    return items


def _order(item: WorkItem) -> tuple[Place, str, int]:
    (mutation,) = item.mutations
    return tuple(mutation.start_pos), mutation.operator_name, mutation.occurrence


def _idle_places(tree: ast.Module) -> list[tuple[Place, Place, bool]]:
    """Beginnings and ends of what no test need notice: annotations, whether a dataclass is frozen, the -1 of `reshape`,
    for which NumPy takes any negative number; and, for numbers alone, constants to be tuned.
    """
    skipped: list[ast.expr | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            skipped.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped.append(node.returns)
        if isinstance(node, ast.keyword) and node.arg == "frozen":
            skipped.append(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            skipped += node.args
    constants = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    ]
    return [(*_ends(node), False) for node in skipped if node is not None] + [
        (*_ends(node), True) for node in constants
    ]


def _ends(node: ast.expr) -> tuple[Place, Place]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _end(result: WorkResult, equivalent: Iterable[str]) -> str:
    if result.test_outcome != TestOutcome.SURVIVED:
        return result.output or "killed"
    return "equivalent" if _changed_lines(result.diff or "")[1] in equivalent else "survived"


def _changed_lines(diff: str) -> tuple[str, str]:
    """The lines that a diff takes out and puts in, without their indentation."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@"))]
    out, into = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return out, into


def _equivalent_lines(module: Path) -> set[str]:
    if not EQUIVALENT.exists():
        return set()
    entries = [line.rpartition(" # ")[0].strip() for line in EQUIVALENT.read_text().splitlines()]
    return {entry.removeprefix(f"{module}: ") for entry in entries if entry.startswith(f"{module}: ")}


def _print_counts(counts: dict[Path, collections.Counter[str]]) -> None:
    ends = ("killed", "timed out", "survived", "equivalent")
    width = max(map(len, map(str, counts)), default=0)
    print(f"{'':{width}}  {'mutants':>8}" + "".join(f"{end:>11}" for end in ends))
    for module, count in [*counts.items(), ("all", sum(counts.values(), collections.Counter()))]:
        print(f"{module!s:{width}}  {count.total():>8}" + "".join(f"{count[end]:>11}" for end in ends))


if __name__ == "__main__":
    main()
