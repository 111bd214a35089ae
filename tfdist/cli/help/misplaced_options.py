"""Options of a verb that stand behind a script, where they are the script's, and most often meant for the verb."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

_IMPORT = re.compile(r"^\s*(?:from|import)\s+\.*(\w+)", re.MULTILINE)
_MOST_BYTES = 1 << 20


def misplaced_options(module: str | None, arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """The verb's options among the arguments of a script or module, of which its source has no word.

    The source is that of the script and of the modules beside it that it imports. Where it cannot be read, nothing is
    known of its options.

    Args:
        module: The value of `-m`.
        arguments: The script and its arguments, or the module's arguments.
        known: The verb's options, such as `--nproc`.
    """
    script = Path(f"{module.replace('.', '/')}.py" if module else arguments[0] if arguments else "")
    given = arguments if module else arguments[1:]
    before_dashes = itertools.takewhile(lambda argument: argument != "--", given)
    options = dict.fromkeys(argument.partition("=")[0] for argument in before_dashes if argument.startswith("--"))
    misplaced = [option for option in options if option in known]
    if script.suffix != ".py" or not misplaced or not (text := "\n".join(_sources(script))):
        return []
    return [option for option in misplaced if not _has_word(text, option)]


def misplaced_warning(verb: str, target: str, options: Sequence[str]) -> str:
    """Returns what is said of them."""
    named, are = ", ".join(options), "is an option" if len(options) == 1 else "are options"
    return (
        f"warning: {named} {are} of `{verb}`, and what stands behind {target} goes to that, whose source has no word "
        f"of it. Expected the options of `{verb}` before the script: {verb} {options[0]} ... {target}"
    )


def _sources(script: Path) -> Iterator[str]:
    text = _text(script)
    yield text
    for name in dict.fromkeys(_IMPORT.findall(text)):
        for beside in (script.with_name(f"{name}.py"), script.with_name(name) / "__init__.py"):
            yield _text(beside)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _has_word(text: str, option: str) -> bool:
    """Returns whether the text has the option's name, written in whatever way a library of options has it."""
    return re.search(rf"\b{option.removeprefix('--').replace('-', '[-_]')}\b", text) is not None
