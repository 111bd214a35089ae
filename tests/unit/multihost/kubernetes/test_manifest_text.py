from __future__ import annotations

import re

import pytest
import yaml

from tests.unit.multihost.kubernetes.test_manifest_options import options
from tfdist.multihost.kubernetes.manifest_text import manifest_text, objects

READ_IN_ANOTHER_WAY = ["y", "N", "on", "Off", "1e3", "1:30", "0x1f", "1_000", "012", ".5", "~", "null", "NaN", "", " a"]
"""By kubectl's parser or by PyYAML's, where they are not quoted."""


@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_the_text_is_the_objects(kind: str) -> None:
    made = options(kind=kind, env=(("A", "1"),))
    text = manifest_text(made, [kind, "digits.yaml"])
    assert list(yaml.safe_load_all(text)) == objects(made)
    assert manifest_text(made, [kind, "digits.yaml"]) == text
    assert "&" not in text and text.count("\n---\n") == len(objects(made))


def test_the_command_is_in_a_comment_of_one_line() -> None:
    text = manifest_text(options(), ["job", "--set", "a=b c\n---\nkind: Pod", "\u2028\x85", "é.yaml"])
    lines = text.splitlines()
    assert lines[0].startswith("# Made by tfdist ")
    assert lines[1] == r"#     tfdist manifest job --set 'a=b c\n---\nkind: Pod' '\u2028\x85' 'é.yaml'"
    assert [line for line in lines if not line.startswith("#")][0] == "---"


@pytest.mark.parametrize("value", [*READ_IN_ANOTHER_WAY, "a: b", "# a", "- a", "a\nb", "\t", "'\"", "é", "\U0001f600"])
def test_texts_stay_texts(value: str) -> None:
    text = manifest_text(options(env=(("A", value),), arguments=("a.py", value)), ["job"])
    job = list(yaml.safe_load_all(text))[-1]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1] == {"name": "A", "value": value} and container["command"][-1] == value
    assert re.search(r'- name: A\n +value: "', text)


def test_long_texts_are_not_folded() -> None:
    value = "word " * 100
    assert f'value: "{value}"\n' in manifest_text(options(env=(("A", value),)), ["job"])
