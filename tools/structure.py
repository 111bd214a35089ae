"""Prints how the modules of tfdist hang together: folders and files that import each other, context variables, sizes,
and how many files name an option of a run.

    python -m tools.structure                   # of this checkout
    python -m tools.structure --option shard    # and the files that a name is in, such as that of an option

Imports for type checkers alone count as any other: a reader follows them, too. A folder and a folder inside of it may
import each other.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.structure_variables import ContextVariable, attached_names, context_variables

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tfdist"
OPTIONS = ("tfdist.launch.worker_options", "WorkerOptions")
"""The module and the class whose fields are the options of a run."""

_SHOWN_OPTIONS = 5

Graph = Mapping[str, frozenset[str]]
"""Name -> the names that it imports."""


@dataclass(frozen=True)
class Structure:
    """What the sources of a package show.

    Attributes:
        sources: Module -> its text.
        folders: Module -> the folder, as a package, that it lies in.
        files: Module -> the modules that it imports.
        context_variables: Those that its modules make.
        attached: The names of values that are attached to objects of Keras and TensorFlow, each with its module.
    """

    sources: Mapping[str, str]
    folders: Mapping[str, str]
    files: Graph
    context_variables: Sequence[ContextVariable]
    attached: Sequence[tuple[str, str]]

    @property
    def of_folders(self) -> Graph:
        """Folder -> the folders that modules in it import, without those that one lies in the other of."""
        found: dict[str, set[str]] = {folder: set() for folder in self.folders.values()}
        for module, imported in self.files.items():
            own = self.folders[module]
            found[own] |= {folder for folder in map(self.folders.__getitem__, imported) if not _related(own, folder)}
        return {folder: frozenset(others) for folder, others in found.items()}

    @property
    def mutual_folders(self) -> list[tuple[str, str]]:
        """Pairs of folders that import each other."""
        graph = self.of_folders
        return sorted((one, other) for one in graph for other in graph[one] if one < other and one in graph[other])

    @property
    def lines(self) -> int:
        """Lines of all modules."""
        return sum(source.count("\n") for source in self.sources.values())

    @property
    def files_of_options(self) -> dict[str, int]:
        """Option of a run -> how many files name it; most first.

        Of those with names of two words: other things have a name of one word, too.
        """
        words = [frozenset(re.findall(r"\w+", source)) for source in self.sources.values()]
        counts = {name: sum(name in each for each in words) for name in self._options() if "_" in name}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def _options(self) -> Iterator[str]:
        module, owner = OPTIONS
        for node in ast.walk(ast.parse(self.sources.get(module, ""))):
            if isinstance(node, ast.ClassDef) and node.name == owner:
                fields = (field.target for field in node.body if isinstance(field, ast.AnnAssign))
                yield from (field.id for field in fields if isinstance(field, ast.Name))

    def files_with(self, name: str) -> list[str]:
        """The modules in which a name occurs as a word, or as a part of one between underscores."""
        word = re.compile(rf"(?<![a-z]){re.escape(name.strip('-').replace('-', '_'))}(?![a-z])")
        return sorted(module for module, source in self.sources.items() if word.search(source))


def structure_of(root: Path, package: str = PACKAGE) -> Structure:
    """Reads the modules of a package.

    Args:
        root: The folder that the package lies in.
        package: Its name.
    """
    paths = {_module(path.relative_to(root)): path for path in sorted((root / package).rglob("*.py"))}
    sources = {module: path.read_text(encoding="utf-8") for module, path in paths.items()}
    folders = {m: m if path.name == "__init__.py" else m.rpartition(".")[0] for m, path in paths.items()}
    trees = {module: ast.parse(source) for module, source in sources.items()}
    files = {m: frozenset(n for n in _imported(tree, sources) if n != m) for m, tree in trees.items()}
    return Structure(sources, folders, files, context_variables(trees), attached_names(trees))


def circles(graph: Graph) -> list[list[str]]:
    """Groups of more than one name that all import each other, over however many steps.

    By Tarjan (1972, "Depth-first search and linear graph algorithms").
    """
    places: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    found: list[list[str]] = []
    for start in graph:
        if start in places:
            continue
        calls = [(start, iter(sorted(graph[start])))]
        places[start] = lowest[start] = len(places)
        waiting.append(start)
        while calls:
            name, others = calls[-1]
            for other in others:
                if other not in graph:
                    continue
                if other not in places:
                    places[other] = lowest[other] = len(places)
                    waiting.append(other)
                    calls.append((other, iter(sorted(graph[other]))))
                    break
                if other in waiting:
                    lowest[name] = min(lowest[name], places[other])
            else:
                calls.pop()
                if calls:
                    lowest[calls[-1][0]] = min(lowest[calls[-1][0]], lowest[name])
                if lowest[name] == places[name]:
                    group = waiting[waiting.index(name) :]
                    del waiting[waiting.index(name) :]
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _related(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _imported(tree: ast.Module, modules: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from (name for name in ([inner] if inner in modules else [node.module]) if name in modules)


def _users(variable: ContextVariable) -> Iterator[str]:
    """Lines that say where a variable is made, and which modules set and read it."""
    yield f"{variable.module.removeprefix(f'{PACKAGE}.')}.{variable.name}"
    for does, modules in (("set by", variable.set_by), ("read by", variable.read_by)):
        yield f"  {does:<8}{', '.join(module.removeprefix(f'{PACKAGE}.') for module in modules)}"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--option", help="a name, of which the files are counted that it is in")
    option = parser.parse_args().option
    found = structure_of(ROOT)
    of_folders, of_files = circles(found.of_folders), circles(found.files)
    print(f"files                {len(found.sources):>8,}")
    print(f"lines                {found.lines:>8,}")
    print(f"mutual folders       {len(found.mutual_folders):>8,}")
    print(f"circles of folders   {len(of_folders):>8,}")
    print(f"circles of files     {len(of_files):>8,}")
    print(f"context variables    {len(found.context_variables):>8,}")
    print(f"attached names       {len(found.attached):>8,}")
    for name, count in list(found.files_of_options.items())[:_SHOWN_OPTIONS]:
        print(f"{name:<20} {count:>8,} files name this option")
    for pair in found.mutual_folders:
        print("mutual:", *pair)
    for group in (*of_folders, *of_files):
        print("circle:", *group)
    for variable in found.context_variables:
        print(*_users(variable), sep="\n")
    if option:
        files = found.files_with(option)
        print(f"{option} is in {len(files)} files:", *files, sep="\n  ")


if __name__ == "__main__":
    main()
