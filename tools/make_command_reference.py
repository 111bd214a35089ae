"""Writes docs/commands.md, the reference of the command line, from what `tfdist COMMAND --help-all` says.

    python tools/make_command_reference.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402

from tfdist.cli.help.help_sections import HELP, OPTIONS  # noqa: E402
from tfdist.cli.launch.launch_verb import train_options  # noqa: E402
from tfdist.cli.main import HEADINGS, VERBS  # noqa: E402
from tfdist.cli.main import main as tfdist  # noqa: E402
from tfdist.cli.manifest import passed_options  # noqa: E402
from tfdist.cli.verb import Verb  # noqa: E402

PAGE = ROOT / "docs" / "commands.md"
_HEAD = """# The command line

What `tfdist COMMAND --help-all` says of every command; written by `python tools/make_command_reference.py`.
[Completion](install.md#completion-in-the-shell) has your shell write the names.

`-h` and `--help` explain the common options of a command, `--help-all` all of them; `tfdist --version` prints the
version. Exit codes are the same for all commands:

| code | what it means |
| --- | --- |
| 0 | done |
| 2 | usage, a config, or a port that is taken |
| 3 | the cluster did not form |
| 4 | a worker failed |
| 5 | data |
| 6 | a check found a difference |
| 130, 143 | interrupted, terminated |
"""


def write() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


def page() -> str:
    """The text of the page."""
    commands = dict(_commands(tfdist, "tfdist"))
    lines = [_HEAD]
    for verb, heading in HEADINGS.items():
        below = _below(verb, list(commands))
        links = (f"[{path.removeprefix('tfdist ')}](#{path.replace(' ', '-')})" for path in below)
        lines.append(f"- {heading}: {', '.join(links)}")
    for path, command in commands.items():
        lines += ["", f"## {path}", "", *_section(path, command)]
    return "\n".join(lines) + "\n"


def _below(verb: str, paths: Sequence[str]) -> list[str]:
    """The commands that stand under the heading of a verb."""
    order = list(VERBS)
    after = order[order.index(verb) + 1 :]
    end = next((other for other in after if other in HEADINGS), None)
    verbs = order[order.index(verb) : order.index(end) if end else None]
    return [path for path in paths if path.split()[1] in verbs]


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command


def _section(path: str, command: click.Command) -> Iterator[str]:
    ctx = click.Context(command, info_name=path)
    yield "```"
    yield " ".join([path, *command.collect_usage_pieces(ctx)])
    yield "```"
    for paragraph in (command.help or "").replace("\r", "").split("\n\n"):
        yield ""
        yield from _paragraph(paragraph)
    assert isinstance(command, Verb)
    by_heading = command.shown_options(ctx)
    by_heading.pop(HELP, None)
    shared = {option.name for option in _of_train(path)}
    for heading, options in by_heading.items():
        own = [option for option in options if option.name not in shared and "--help" not in option.opts]
        if own:
            yield from ["", *([f"*{heading}*", ""] if len(by_heading) > 1 and heading != OPTIONS else [])]
            yield from _table(ctx, own)
    if shared:
        yield ""
        yield f"The other options are those of [`tfdist train`](#tfdist-train); `{path} --help-all` has them."


def _of_train(path: str) -> list[click.Option]:
    """The options of `tfdist train` that a command takes as they are."""
    verb = path.split()[1]
    return train_options() if verb == "launch" else passed_options() if verb == "manifest" else []


def _paragraph(text: str) -> Iterator[str]:
    if text.startswith("\b"):
        yield from ["```", *(line.strip() for line in text.splitlines()[1:]), "```"]
    else:
        yield _marked(" ".join(text.split()))


def _table(ctx: click.Context, options: Sequence[click.Option]) -> Iterator[str]:
    yield "| option | default | |"
    yield "| --- | --- | --- |"
    for option in options:
        extra = option.get_help_extra(ctx)
        default = str(extra.get("default", "")).removeprefix("(").removesuffix(")")
        if extra.get("required"):
            default = "must be given"
        yield f"| {_names(ctx, option)} | {_marked(default)} | {_marked(str(option.help))}{_limits(option)} |"


def _names(ctx: click.Context, option: click.Option) -> str:
    """How an option is written; of one with few values `--jit auto`, `on` or `off`."""
    *short, name = option.opts
    value = "" if option.is_flag else str(option.make_metavar(ctx)).strip("[]" if option.metavar is None else "")
    values = value.split("|")
    first = " ".join([name, values[0]]).strip()
    others = [f"`{other}`" for other in values[1:]]
    alternatives = f"{', '.join(['', *others[:-1]])} or {others[-1]}" if others else ""
    return "".join(f"`{one}`, " for one in short) + f"`{first}`{alternatives}"


def _limits(option: click.Option) -> str:
    kind = option.type
    if not isinstance(kind, click.IntRange | click.FloatRange) or kind.min is None:
        return ""
    return f" From {kind.min}." if kind.max is None else f" From {kind.min} to {kind.max}."


def _marked(text: str) -> str:
    """A text of a help as Markdown: with options and names of files as code."""
    parts = re.split(r"(`[^`]*`)", text)
    for place in range(0, len(parts), 2):
        plain = re.sub(r"([*<|])", r"\\\1", parts[place])
        parts[place] = re.sub(r"(?<![\w-])(--?[a-z][\w-]*|[\w./]+\.(?:py|yaml|npz|keras))(?![\w-])", r"`\1`", plain)
    return "".join(parts)


if __name__ == "__main__":
    write()
