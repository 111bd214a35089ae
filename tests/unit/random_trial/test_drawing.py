"""Draws are valid, the same for a seed, and made of everything that there is."""

from __future__ import annotations

import ast
import builtins

import pytest

from tests.random_trial.draw import FEEDS, INPUTS, Draw
from tests.random_trial.drawing import draw_of
from tests.random_trial.script import script_of

SEEDS = range(500)


@pytest.fixture(scope="module")
def draws() -> list[Draw]:
    return [draw_of(seed) for seed in SEEDS]


def test_a_seed_stands_for_one_draw(draws: list[Draw]) -> None:
    assert [draw_of(seed) for seed in SEEDS] == draws
    assert len({script_of(draw) for draw in draws}) == len(draws)


def test_everything_is_drawn(draws: list[Draw]) -> None:
    assert {draw.start for draw in draws} == set(INPUTS)
    assert {draw.feed for draw in draws} == set(FEEDS)
    assert {draw.form for draw in draws} == {"functional", "sequential", "subclassed", "own_step"}
    assert {draw.precision for draw in draws} == {"float64", "float32", "mixed_bfloat16"}
    assert {draw.replicas for draw in draws} == {2, 3, 4}
    assert {draw.is_of_workers for draw in draws} == {False, True}
    assert {len(draw.heads) for draw in draws} == {1, 2, 3}
    assert {name for draw in draws for name, _ in draw.compiled} == {
        "run_eagerly",
        "jit_compile",
        "steps_per_execution",
    }
    rest = {draw.samples % draw.batch for draw in draws}
    assert {0, 1, 2} <= rest


def test_scripts_are_complete(draws: list[Draw]) -> None:
    """Every name that a script reads is defined in it, or of Python."""
    for draw in draws[:300]:
        tree = ast.parse(script_of(draw))
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        stored |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        stored |= {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        assert read - stored - set(dir(builtins)) == set(), draw.seed
