from __future__ import annotations

import os

import pytest

from tfdist.errors import UsageError
from tfdist.net.shared_token import Seal, Token, fresh_nonce, transcript

SECRET = "5f0c1e-not-to-be-seen"
TOKEN = Token(SECRET)
SAID = transcript({"hello": {"b": 1, "a": [1, 2]}, "link": True})


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_an_empty_token_is_refused_and_not_taken_for_none(text: str) -> None:
    with pytest.raises(UsageError, match="TFDIST_TOKEN is set and empty"):
        Token(text)


def test_a_newline_at_the_end_makes_no_difference() -> None:
    assert Token(f"{SECRET}\n") == TOKEN


def test_bytes_that_are_not_text_may_be_a_token() -> None:
    token = Token(os.fsdecode(b"\xff\xfe\x01"))
    assert token.proves("caller", SAID, token.proof("caller", SAID))


def test_it_never_shows_itself() -> None:
    assert SECRET not in f"{TOKEN} {TOKEN!r} {[TOKEN]}"


def test_what_was_said_does_not_depend_on_the_order_of_keys() -> None:
    assert transcript({"link": True, "hello": {"a": [1, 2], "b": 1}}) == SAID


def test_a_proof_proves() -> None:
    assert TOKEN.proves("caller", SAID, TOKEN.proof("caller", SAID))


@pytest.mark.parametrize(
    "proof",
    [
        Token("another").proof("caller", SAID),
        TOKEN.proof("answerer", SAID),  # its own, sent back
        TOKEN.proof("caller", transcript({"hello": {"b": 1, "a": [1, 3]}, "link": True})),
        TOKEN.proof("caller", SAID)[:-1],
        "",
        "\udcff",
        None,
        7,
    ],
)
def test_nothing_else_proves(proof: object) -> None:
    assert not TOKEN.proves("caller", SAID, proof)


def test_nonces_are_fresh() -> None:
    nonces = {fresh_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert {len(nonce) for nonce in nonces} == {64}


def seals(secret: str = SECRET) -> tuple[Seal, Seal]:
    """What one side seals with, and what the other opens with."""
    return TOKEN.seal("caller", SAID), Token(secret).seal("caller", SAID)


def test_sealed_messages_open_in_their_order() -> None:
    ours, theirs = seals()
    bodies = [b"{}", b"{}", b'{"a": "b c"}']
    assert [theirs.open(ours.close(body)) for body in bodies] == bodies


@pytest.mark.parametrize("attack", ["changed", "repeated", "left out", "swapped", "unsealed", "sent back", "cut"])
def test_what_was_tampered_with_does_not_open(attack: str) -> None:
    ours, theirs = seals()
    first, second = ours.close(b'{"a": 1}'), ours.close(b'{"b": 2}')
    if attack == "changed":
        received = [first.replace(b"1}", b"2}")]
    elif attack == "repeated":
        assert theirs.open(first) is not None
        received = [first]
    elif attack in ("left out", "swapped"):
        received = [second]
    elif attack == "unsealed":
        received = [b'{"a": 1}', b"", b" "]
    elif attack == "sent back":
        received = [TOKEN.seal("answerer", SAID).close(b'{"a": 1}')]
    else:
        received = [first[:-1]]
    assert [theirs.open(line) for line in received] == [None] * len(received)


def test_another_token_and_another_conversation_have_other_seals() -> None:
    ours, theirs = seals("another")
    assert theirs.open(ours.close(b"{}")) is None
    other = TOKEN.seal("caller", transcript({"hello": 1}))
    assert other.open(TOKEN.seal("caller", SAID).close(b"{}")) is None
