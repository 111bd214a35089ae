from __future__ import annotations

import dataclasses
import json

import pytest

from tfdist.multihost.launching.protocol import HostFacts, HostSpec, StartOrder, answer, marker, message, parse_message

SPEC = HostSpec("1.0", "abc", "/w", "script", "train.py", ("--a=1", "x"), 2, (0, 1), 5.0, {"A": "1"}, "/o", "/r")
FACTS = HostFacts("host", "boot", "10.0.0.1", (20_000, 20_001), 2, "/python")


def test_messages_are_read_as_they_were_written() -> None:
    assert HostSpec.of(SPEC.to_line()) == SPEC
    assert HostSpec.of(dataclasses.replace(SPEC, slots=None, output=None, run_dir=None).to_line()).is_detached is False
    assert HostFacts.of(json.loads(json.dumps(dataclasses.asdict(FACTS)))) == FACTS
    assert StartOrder.of({"workers": "a:1", "use_slots": True}) == StartOrder("a:1", True)
    assert parse_message(message(signal=15)) == {"signal": 15}
    before, found, rest = b"noise" + answer("n", ended=0), marker("n"), b'{"ended": 0}\n'
    assert before.partition(found) == (b"noise", found, rest)


def test_secrets_are_not_in_what_is_shown() -> None:
    assert "'A'" not in repr(SPEC) and "variables" not in repr(SPEC)


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 1},
        {"nonce": ""},
        {"cwd": "a\0b"},
        {"target_kind": "other"},
        {"arguments": "text"},
        {"arguments": [1]},
        {"workers": 0},
        {"workers": True},
        {"slots": ["a"]},
        {"slots": [-1]},
        {"grace": "5"},
        {"grace": 0},
        {"variables": []},
        {"variables": {"A=B": "1"}},
        {"variables": {"A": 1}},
        {"more": 1},
    ],
)
def test_a_specification_of_another_kind_is_refused(changed: dict[str, object]) -> None:
    line = json.dumps({**dataclasses.asdict(SPEC), **changed}).encode()
    if changed == {"arguments": "text"}:
        line = line.replace(b'"text"', b"5")
    with pytest.raises(ValueError, match="expected|specification"):
        HostSpec.of(line)


@pytest.mark.parametrize("said", [None, [], {"host": 1}, {**dataclasses.asdict(FACTS), "gpus": "2"}])
def test_facts_of_another_kind_are_refused(said: object) -> None:
    with pytest.raises(ValueError, match="expected|facts"):
        HostFacts.of(said)
    with pytest.raises(ValueError, match="expected the list"):
        StartOrder.of(said)
