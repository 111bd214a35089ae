"""Two processes introduce themselves, without a socket."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tfdist.net.handshake import (
    OTHER_TOKEN,
    WITH_TOKEN,
    WITHOUT_TOKEN,
    AnswererSide,
    CallerSide,
    Introduction,
    Reply,
)
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, Message
from tfdist.net.shared_token import Token

SECRET, OTHER = Token("5f0c1e-not-to-be-seen"), Token("another-not-to-be-seen")
CALLER = Hello("c", "host-c", "c:1,a:1", (0,), {"keras": "3.15.1"})
ANSWERER = Hello("a", "host-a", "c:1,a:1", (1,), {"keras": "3.15.1"})


def over_the_line(message: Message) -> Message:
    return dict(json.loads(json.dumps(message)))


class Conversation:
    """What both sides said, and what each learned."""

    def __init__(self, theirs: Token | None, ours: Token | None, *, link: bool = True, change: Any = None) -> None:
        self.call = CallerSide(Introduction(CALLER, theirs), link=link)
        self.answer = AnswererSide(Introduction(ANSWERER, ours))
        self.said: list[Message] = []
        self.caller: Reply[Hello] = Reply()
        self.answerer: Reply[Hello] = Reply()
        self._change = change or (lambda place, message: message)
        assert self.call.opening is not None
        message: Message | None = self._carry(self.call.opening)
        while message is not None:
            self.answerer = self.answer.hear(message)
            if self.answerer.say is None:
                break
            self.caller = self.call.hear(self._carry(self.answerer.say))
            message = None if self.caller.say is None else self._carry(self.caller.say)

    def _carry(self, message: Message) -> Message:
        carried = dict(self._change(len(self.said), over_the_line(message)))
        self.said.append(carried)
        return carried


@pytest.mark.parametrize("token", [None, SECRET])
@pytest.mark.parametrize("link", [False, True])
def test_both_meet_if_they_have_the_same_token_or_none(token: Token | None, link: bool) -> None:
    conversation = Conversation(token, token, link=link)
    assert conversation.caller.met is not None and conversation.answerer.met is not None
    assert conversation.caller.met.hello == ANSWERER
    assert conversation.answerer.met.hello == CALLER
    assert conversation.caller.met.link == conversation.answerer.met.link == link
    assert conversation.caller.met.said == conversation.answerer.met.said


@pytest.mark.parametrize(
    ("theirs", "ours", "caller", "answerer"),
    [
        (SECRET, OTHER, OTHER_TOKEN, OTHER_TOKEN),
        (SECRET, None, WITHOUT_TOKEN, WITH_TOKEN),
        (None, SECRET, WITH_TOKEN, WITHOUT_TOKEN),
    ],
)
def test_both_learn_that_their_tokens_do_not_fit(
    theirs: Token | None, ours: Token | None, caller: str, answerer: str
) -> None:
    conversation = Conversation(theirs, ours)
    assert (conversation.caller.mismatch, conversation.answerer.mismatch) == (caller, answerer)
    assert conversation.caller.met is None


@pytest.mark.parametrize(("theirs", "ours"), [(SECRET, SECRET), (SECRET, OTHER), (SECRET, None), (None, SECRET)])
def test_the_secret_is_never_sent_or_shown(theirs: Token | None, ours: Token | None) -> None:
    conversation = Conversation(theirs, ours)
    everything = f"{conversation.said} {conversation.caller} {conversation.answerer} {vars(conversation.call)}"
    assert "not-to-be-seen" not in everything


def test_the_caller_proves_before_the_answerer_says_anything_that_depends_on_the_token() -> None:
    opening, challenge, proof, answer = Conversation(SECRET, SECRET).said
    assert set(challenge) == {"nonce"}
    assert set(proof) == {"proof"}
    assert set(answer) == {"hello", "proof"}
    assert opening["nonce"] != challenge["nonce"]


def test_a_conversation_is_never_the_same_twice() -> None:
    first, second = Conversation(SECRET, SECRET), Conversation(SECRET, SECRET)
    proofs = {conversation.said[place]["proof"] for conversation in (first, second) for place in (2, 3)}
    assert len(proofs) == 4


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        (0, {"link": False}),
        (0, {"hello": dataclasses.replace(CALLER, local=(1,)).to_message()["hello"]}),
        (0, {"nonce": "0" * 64}),
        (1, {"nonce": "0" * 64}),
        (2, {"proof": "0" * 64}),
        (3, {"hello": dataclasses.replace(ANSWERER, host="host-b").to_message()["hello"]}),
        (3, {"proof": "0" * 64}),
    ],
)
def test_a_message_that_is_changed_on_the_way_is_noticed(place: int, changed: Message) -> None:
    def change(where: int, message: Message) -> Message:
        return {**message, **changed} if where == place else message

    conversation = Conversation(SECRET, SECRET, change=change)
    assert conversation.caller.met is None
    assert conversation.caller.mismatch == OTHER_TOKEN


def test_an_old_conversation_cannot_be_replayed() -> None:
    old = Conversation(SECRET, SECRET).said
    answer = AnswererSide(Introduction(ANSWERER, SECRET))
    assert answer.hear(old[0]).met is None
    replayed = answer.hear(old[2])
    assert replayed.met is None and replayed.mismatch == OTHER_TOKEN
    call = CallerSide(Introduction(CALLER, SECRET), link=True)
    assert call.hear(old[1]).met is None
    assert call.hear(old[3]).mismatch == OTHER_TOKEN


def test_an_answerer_that_asks_for_a_proof_cannot_use_it_as_its_own() -> None:
    call = CallerSide(Introduction(CALLER, SECRET), link=True)
    proof = call.hear({"nonce": "1" * 64}).say
    assert proof is not None
    assert call.hear({**ANSWERER.to_message(), **proof}).mismatch == OTHER_TOKEN


@pytest.mark.parametrize("message", [{}, {"nonce": 1}, {"hello": {}}, {"proof": "x"}])
@pytest.mark.parametrize("token", [None, SECRET])
def test_a_stranger_is_not_taken_for_a_launcher(message: Message, token: Token | None) -> None:
    with pytest.raises(LineError):
        AnswererSide(Introduction(ANSWERER, token)).hear(message)


def test_with_a_banner_the_answerer_begins_and_the_caller_waits_for_it() -> None:
    banner = {"doctor": 2}
    call = CallerSide(Introduction(CALLER, banner=banner), link=True)
    answer = AnswererSide(Introduction(ANSWERER, banner=banner))
    assert call.opening is None and answer.opening == banner
    request = call.hear(over_the_line(banner)).say
    assert request is not None
    answered = answer.hear(over_the_line(request))
    assert answered.met is not None and answered.met.hello == CALLER and answered.met.link
    assert answered.say is not None
    met = call.hear(over_the_line(answered.say)).met
    assert met is not None and met.hello == ANSWERER


@pytest.mark.parametrize("message", [{}, {"doctor": 1}, {"hello": ANSWERER.to_message()["hello"]}])
def test_another_banner_is_not_answered(message: Message) -> None:
    with pytest.raises(LineError):
        CallerSide(Introduction(CALLER, banner={"doctor": 2}), link=True).hear(message)
