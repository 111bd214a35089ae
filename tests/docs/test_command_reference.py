"""The reference of the command line is what the commands say."""

from __future__ import annotations

import re

import click

from tests.helpers.pages import DOCS
from tfdist.cli.train import train
from tools.make_command_reference import page


def test_the_page_is_that_of_the_commands() -> None:
    written = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert written == page(), "run python tools/make_command_reference.py"


def test_the_page_of_scripts_says_where_each_option_of_train_is_explained() -> None:
    table = (DOCS / "scripts.md").read_text(encoding="utf-8").partition("## Options of `tfdist train`")[2]
    named = set(re.findall(r"`(--?[a-z][\w-]*)", table.partition("\n### ")[0]))
    options = {option.opts[-1] for option in train.params if isinstance(option, click.Option)}
    assert options - named == set(), "add them to the table of options in docs/scripts.md"
