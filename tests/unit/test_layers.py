"""The house: who may import whom, what each package is and says, and what start-up may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfdist.errors

PACKAGE = Path(tfdist.errors.__file__).parent

FLOORS = {
    "bounded_process": 0,
    "bounded_json": 0,
    "errors": 0,
    "text": 0,
    "url_schemes": 0,
    "python_op_errors": 0,
    "versions": 0,
    "tf_log_filter": 1,
    "cluster": 1,
    "order": 1,
    "sharding": 1,
    "config": 1,
    "rundir": 1,
    "storage": 1,
    "examples": 1,
    "net": 2,
    "launch": 3,
    "plan": 3,
    "runtime": 4,
    "keras_repairs": 5,
    "data": 5,
    "checkpoint": 5,
    "models": 5,
    "layers": 6,
    "optimizers": 6,
    "training": 6,
    "verify": 7,
    "reports": 7,
    "doctor": 7,
    "multihost": 7,
    "board": 8,
    "selftest": 8,
    "notebook": 8,
    "ray": 8,
    "inference": 8,
    "cli": 9,
    "__init__": 10,
    "__main__": 10,
}
LIGHT = {"errors", "text", "cluster", "order", "config", "rundir", "net", "launch", "plan", "cli", "reports", "doctor"}
LIGHT |= {"board", "bounded_json", "examples", "python_op_errors", "tf_log_filter", "versions", "checkpoint.inspection"}
LIGHT |= {"bounded_process", "ray.__init__", "ray.ray_library", "ray.job"}
LIGHT |= {"inference", "multihost", "sharding", "storage", "url_schemes", "__init__", "__main__"}
"""Never import TensorFlow or Keras, at whatever place in the file."""

WITHOUT_NUMPY = LIGHT - {"order", "plan", "checkpoint.inspection"}
HEAVY = {"tensorflow", "keras", "tf_keras"}

MODULES = sorted(PACKAGE.rglob("*.py"))
STARTED_OFTEN = ["tfdist", "tfdist.cli.main", "tfdist.cli.train", "tfdist.launch.job", "tfdist.config", "tfdist.rundir"]


def dotted_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The package on its floor, or the file, to which a dotted name below tfdist belongs."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def is_any_of(module: str, rooms: set[str]) -> bool:
    """Whether a module of tfdist is one of these rooms, such as `checkpoint.inspection`, or lies in one."""
    below = module.removeprefix("tfdist.") if module != "tfdist" else "__init__"
    return any(below == room or below.startswith(f"{room}.") for room in rooms)


def imports_of(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, wherever in the file it does so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")
                above = above[: len(above) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                # `from tfdist import errors` reaches the module, not the public names.
                is_room = base == "tfdist" and alias.name in FLOORS
                yield node.lineno, f"tfdist.{alias.name}" if is_room else base


def breaches(file: Path, source: str) -> list[str]:
    """What a file imports against the rules, one text each."""
    module = dotted_name(file)
    room = room_of(module)
    found = []
    for line, name in imports_of(ast.parse(source), module, file.name == "__init__.py"):
        top = name.split(".")[0]
        other = room_of(name)
        if top in HEAVY and is_any_of(module, LIGHT):
            found.append(f"{file}:{line}: {room} must not import {name}")
        if top == "numpy" and is_any_of(module, WITHOUT_NUMPY):
            found.append(f"{file}:{line}: {room} must not import numpy, which takes long to load")
        if top == "tfdist" and other != room and not FLOORS.get(other, 99) < FLOORS[room]:
            found.append(f"{file}:{line}: {room} (floor {FLOORS[room]}) imports {name} (floor {FLOORS.get(other)})")
    return found


@pytest.mark.parametrize("file", MODULES, ids=dotted_name)
def test_modules_import_only_from_lower_floors(file: Path) -> None:
    assert room_of(dotted_name(file)) in FLOORS, "give the new package a floor in this test and in the design"
    assert breaches(file, file.read_text()) == []


PACKAGES = sorted(file.parent for file in MODULES if file.name == "__init__.py" and file.parent != PACKAGE)
MOST_MODULES = 24
NAMED_BY_THEIR_KIND = {"cli", "data/formats"}
"""Packages that list one verb, or one format, a module: their docstrings say how these are named."""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(PACKAGE)))
def test_packages_are_small_and_say_what_is_in_them(package: Path) -> None:
    said = set(re.findall(r"\w+", ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""))
    modules = [file.stem for file in package.glob("*.py") if not file.stem.startswith("__")]
    rooms = [room.name for room in package.iterdir() if (room / "__init__.py").exists()]
    assert len(modules) <= MOST_MODULES, "give a subject of it a room of its own"
    if str(package.relative_to(PACKAGE)) not in NAMED_BY_THEIR_KIND:
        assert sorted({*modules, *rooms} - said) == []


BELOW_TRAINING = ["data", "keras_repairs", "models", "runtime"]


@pytest.mark.parametrize("room", BELOW_TRAINING)
def test_only_training_knows_that_there_is_a_launcher(room: str) -> None:
    """What the launcher decides is passed down: the seed, the directory, the timeouts."""
    for file in (PACKAGE / room).rglob("*.py"):
        imported = imports_of(ast.parse(file.read_text()), dotted_name(file), file.name == "__init__.py")
        assert not [name for _, name in imported if room_of(name) == "launch"], file


@pytest.mark.parametrize(
    ("file", "source", "breach"),
    [
        ("config/load.py", "import tfdist.launch.job", True),  # upward
        ("config/load.py", "from tfdist.rundir import RunDir", True),  # a neighbour on the same floor
        ("config/load.py", "from tfdist import runtime", True),
        ("config/load.py", "from tfdist import strategy", True),  # the public names lie on the highest floor
        ("config/load.py", "from ..launch import job", True),
        ("config/load.py", "def f():\n    import keras.layers", True),  # hidden in a function
        ("config/load.py", "import numpy as np", True),
        ("config/load.py", "from tfdist import errors", False),
        ("config/load.py", "from .schema import RunConfig", False),
        ("config/__init__.py", "from .schema import RunConfig", False),
        ("order/epoch_order.py", "import numpy as np", False),
        ("runtime/devices.py", "import tensorflow as tf", False),
        ("cli/train.py", "from tfdist.launch.job import run_job", False),
    ],
)
def test_the_rule_finds_breaches(file: str, source: str, breach: bool) -> None:
    assert bool(breaches(PACKAGE / file, source)) == breach


def reads_environment(tree: ast.AST) -> bool:
    names = {"environ", "environb", "getenv", "putenv"}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in names and getattr(node.value, "id", "") == "os")
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names})
        for node in ast.walk(tree)
    )


def test_the_environment_is_read_in_two_places_only() -> None:
    readers = {file.relative_to(PACKAGE) for file in MODULES if reads_environment(ast.parse(file.read_text()))}
    assert {file for file in readers if file.parts[0] != "cluster"} <= {Path("launch/environment.py")}


def loaded_by(statements: str) -> set[str]:
    """The modules that a fresh interpreter has after some statements, which may end it with code 0."""
    script = (
        f"import sys\ntry:\n    {statements}\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print('', *sys.modules, sep='\\n- ')"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=150, check=True)
    return {line.removeprefix("- ") for line in result.stdout.splitlines() if line.startswith("- ")}


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_light_modules_load_no_tensorflow() -> None:
    light = [name for name in map(dotted_name, MODULES) if is_any_of(name, LIGHT - {"__main__"})]
    assert not packages(loaded_by(f"import {', '.join(light)}")) & HEAVY


@pytest.mark.parametrize("module", STARTED_OFTEN)
def test_start_up_loads_nothing_that_takes_long(module: str) -> None:
    """A module that is merged with another brings along what that imports."""
    slow = HEAVY | {"numpy", "rich", "socketserver"} | (SLOW_TO_LOAD - {"ctypes"})
    assert not packages(loaded_by(f"import {module}")) & slow


FOR_EVERY_VERB = {
    *("tfdist", "tfdist.errors", "tfdist.text", "tfdist.versions"),
    *("tfdist.cli", "tfdist.cli.main", "tfdist.cli.standard_streams", "tfdist.cli.verb"),
}
FOR_OPTIONS = FOR_EVERY_VERB | {
    *("tfdist.cli.common_options", "tfdist.cli.help", "tfdist.cli.help.help_sections", "tfdist.cli.train_target"),
}
CLUSTER = {name for name in map(dotted_name, MODULES) if room_of(name) == "cluster"}
SLOW_TO_LOAD = {"asyncio", "ctypes", "email", "http", "logging", "multiprocessing", "sqlite3", "ssl", "unittest"}
"""Packages of the standard library."""


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["--help"], FOR_EVERY_VERB),
        (["train", "--help"], FOR_OPTIONS | {"tfdist.cli.train"}),
        (
            ["verify", "--help"],
            FOR_OPTIONS | {"tfdist.cli.verify"},
        ),
        (["selftest", "--help"], FOR_OPTIONS | {"tfdist.cli.selftest"}),
        (["status", "--help"], FOR_OPTIONS | {"tfdist.cli.status"}),
        (["doctor", "--help"], FOR_OPTIONS | {"tfdist.cli.doctor"}),
        (
            ["tf-config", "--workers", "a:20000,b:20000", "--index", "1"],
            FOR_EVERY_VERB | {"tfdist.bounded_json", "tfdist.cli.tf_config"} | CLUSTER,
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_command_line_loads_what_it_needs_alone(arguments: list[str], needed: set[str]) -> None:
    """Which is why it answers at once: click, the verb's own file and what all verbs share."""
    loaded = loaded_by(f"from tfdist.cli.main import main; main({arguments})") - loaded_by("pass")
    assert {name for name in loaded if name.startswith("tfdist")} <= needed
    assert packages(loaded) - sys.stdlib_module_names <= {"tfdist", "click"}
    assert not packages(loaded) & SLOW_TO_LOAD
