"""Writes docs/exactness.md from what the tests found, and from tools/exactness.in.md, the text around the table.

    export TFDIST_SLOW_TESTS=1 TFDIST_MATRIX_RESULTS=results
    pytest tests/devices/test_exactness.py tests/devices/test_keras_classes.py
    pytest tests/workers/test_exactness.py tests/workers/test_keras_classes.py
    python tools/make_exactness.py results

A comparison that failed, or was not made, is an error: the table shows what was run. With `--partial` those that were
not made are shown as such.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = Path(__file__).with_name("exactness.in.md")
sys.path.insert(0, str(ROOT))

from tests.exactness.cases import CASES, SECTIONS, cases_of  # noqa: E402
from tests.exactness.keras_classes.exported import MODULES, exported  # noqa: E402
from tests.exactness.keras_classes.rows import NotRun  # noqa: E402
from tests.exactness.keras_classes.table import NOT_RUN, ROWS  # noqa: E402
from tests.exactness.results import COUNTS, SIZES, STRATEGIES, Comparison, Result, read  # noqa: E402
from tests.exactness.table import Case  # noqa: E402

PLACE = "<!-- table -->"
CLASSES_PLACE = "<!-- classes -->"
COLUMNS = list(itertools.product(STRATEGIES, COUNTS))


def main() -> None:
    """Writes the page, or says what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="what TFDIST_MATRIX_RESULTS named")
    parser.add_argument("--partial", action="store_true", help="show comparisons that were not made as not made")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "exactness.md")
    args = parser.parse_args()
    known = {comparison.case for comparison in expected()}
    results = {result.comparison: result for result in read(args.results) if result.comparison.case in known}
    problems = list(faults(results, partial=args.partial))
    if problems:
        sys.exit("\n".join(["docs/exactness.md is not written:", *problems]))
    template = TEMPLATE.read_text(encoding="utf-8")
    page = template.replace(PLACE, "\n".join(table(results))).replace(CLASSES_PLACE, "\n".join(classes(results)))
    args.output.write_text(page, encoding="utf-8")
    print(f"{args.output}: {len(CASES)} rows, {len(ROWS)} classes, {len(results)} comparisons")


def faults(results: Mapping[Comparison, Result], *, partial: bool) -> Iterator[str]:
    """Why no table may be written of `results`."""
    if not results:
        yield "there is no result"
    for result in results.values():
        if not result.passed:
            yield f"failed: {_name(result.comparison)}"
    if not partial:
        for comparison in expected():
            if comparison not in results:
                yield f"not run: {_name(comparison)}"
    versions = sorted({(result.tensorflow, result.keras) for result in results.values()})
    if len(versions) > 1:
        yield f"results of several versions: {versions}"


def expected() -> Iterator[Comparison]:
    """Every comparison of the full table."""
    compared = [*CASES, *ROWS]
    for name, (strategy, count), samples in itertools.product(compared, COLUMNS, SIZES):
        yield Comparison(name, strategy, count, samples)


def table(results: Mapping[Comparison, Result]) -> Iterator[str]:
    """The lines of the versions and of one table a section."""
    result = next(iter(results.values()))
    yield f"Run with TensorFlow {result.tensorflow} and Keras {result.keras}."
    missing = sum(comparison not in results for comparison in expected())
    if missing:
        yield ""
        yield f"**Not complete:** {missing} of {len(list(expected()))} comparisons were not made in this run (–)."
    for section in SECTIONS:
        yield ""
        yield f"### {section}"
        yield ""
        yield from section_table(cases_of(section), results)


def section_table(cases: Sequence[Case], results: Mapping[Comparison, Result]) -> Iterator[str]:
    """The lines of one table, one row a case: in each cell the samples that were compared."""
    heads = ["feature", *(f"{count} {strategy}" for strategy, count in COLUMNS), "compared to"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for case in cases:
        yield f"| {case.title} | {' | '.join(_cells(case.name, results))} | {tolerance(case)} |"


def classes(results: Mapping[Comparison, Result]) -> Iterator[str]:
    """The lines of the tables of Keras's classes, one a module: each exact, refused, or nothing to compare."""
    for module in MODULES:
        yield ""
        yield f"### `keras.{module}`"
        yield ""
        heads = ["class", *(f"{count} {strategy}" for strategy, count in COLUMNS), "result"]
        yield f"| {' | '.join(heads)} |"
        yield f"|{' --- |' * len(heads)}"
        for name, others in exported().items():
            if name.startswith(f"{module}."):
                yield _class_line(name, others, results)


def _class_line(name: str, others: Sequence[str], results: Mapping[Comparison, Result]) -> str:
    names = ", ".join(f"`{one}`" for one in (name.split(".")[1], *others))
    if name in ROWS:
        return f"| {names} | {' | '.join(_cells(name, results))} | exact, {_short(ROWS[name].tolerance)} |"
    return f"| {names} |{' |' * len(COLUMNS)} {_why(NOT_RUN[name])} |"


def _why(reason: NotRun) -> str:
    return f"{'refused' if reason.is_refused else 'not applicable'}: {reason.why}"


def _cells(name: str, results: Mapping[Comparison, Result]) -> list[str]:
    """The samples that were compared, in each column."""
    cells = [
        ", ".join(str(samples) for samples in SIZES if Comparison(name, strategy, count, samples) in results)
        for strategy, count in COLUMNS
    ]
    return [cell or "–" for cell in cells]


def tolerance(case: Case) -> str:
    """What a case is compared to, as in `1e-9`."""
    losses, weights = (_short(value) for value in (case.precision.losses, case.precision.weights))
    return losses if losses == weights else f"{losses}; weights {weights}"


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-")


def _name(comparison: Comparison) -> str:
    return f"{comparison.case} on {comparison.count} {comparison.strategy}, {comparison.samples} samples"


if __name__ == "__main__":
    main()
