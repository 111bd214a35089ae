"""What `--help` shows: options under headings, defaults in one style, summaries that are not cut."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tfdist.cli.help.help_sections import COMMON, FEW, OPTIONS, SECTIONS, section_of
from tfdist.cli.main import HEADINGS, VERBS, main
from tfdist.cli.train import train


def verbs(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with the words that lead to it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


EVERY = {" ".join(path): command for path, command in verbs()}


def options_of(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def shown(words: str) -> str:
    result = CliRunner().invoke(main, words.split(), terminal_width=100)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_option_of_train_stands_under_a_heading() -> None:
    without = [option.opts[-1] for option in options_of(train) if section_of(option) == OPTIONS]
    assert without == [], "add them to a heading of SECTIONS in tfdist/cli/help/help_sections.py"


def test_the_headings_name_options_that_exist_each_once() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    known = {name for command in EVERY.values() for option in options_of(command) for name in option.opts}
    assert sorted(named) == sorted(set(named) & known)
    assert set(named) >= COMMON
    assert set(VERBS) >= set(HEADINGS)


def test_help_explains_the_common_options_and_names_the_others() -> None:
    text = shown("train --help")
    options, _, more = text.partition("More, which `main train --help-all` explains:")
    assert len(text.splitlines()) < 60
    for option in options_of(train):
        is_common = not COMMON.isdisjoint(option.opts)
        assert bool(re.search(rf"^  {option.opts[0]}\b", options, re.MULTILINE)) == is_common
        assert (option.opts[-1] in more.split()) == (not is_common)


def test_help_all_explains_every_option() -> None:
    text = shown("train --help-all")
    for heading in SECTIONS:
        assert f"\n{heading}:\n" in text
    for option in options_of(train):
        assert len(re.findall(rf"^  {option.opts[0]}\b(?!-)", text, re.MULTILINE)) == 1
        assert str(option.help).split(".")[0] in " ".join(text.split())


@pytest.mark.parametrize("verb", EVERY)
def test_defaults_are_said_in_one_style(verb: str) -> None:
    """As click says them, in brackets; in words by `show_default`."""
    for option in options_of(EVERY[verb]):
        assert not re.search(r"[Dd]efault|unless given", option.help or ""), (option.opts, "say it in show_default")
        is_given = option.default is not None and isinstance(option.default, str | int | float)
        assert not is_given or option.is_flag or option.show_default, (option.opts, "needs show_default=True")


@pytest.mark.parametrize("verb", EVERY)
def test_every_verb_has_both_helps(verb: str) -> None:
    short, whole = shown(f"{verb} --help"), shown(f"{verb} --help-all")
    assert (short == whole) == (len(options_of(EVERY[verb])) + 2 <= FEW)
    assert "[default: (" not in whole


@pytest.mark.parametrize("group", ["data", "checkpoints", "config", "examples", "manifest"])
def test_summaries_are_not_cut(group: str) -> None:
    assert "..." not in shown(f"{group} --help").partition("Commands:")[2]


@pytest.mark.parametrize(("verb", "former"), [("verify", "--report"), ("ledger", "--html")])
def test_a_former_name_of_an_option_goes_on_working(verb: str, former: str) -> None:
    assert former not in shown(f"{verb} --help-all")
    command = EVERY[verb]
    option = next(option for option in options_of(command) if "--output" in option.opts)
    for words in ([former, "a"], [f"{former}=a"], ["--output", "a"]):
        context = command.make_context(verb, [*words, "."], resilient_parsing=True)
        assert context.params[str(option.name)] == "a"
