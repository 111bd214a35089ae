"""Handshake of two processes that meet, with a proof that they share a token: decides what to say, sends nothing.

::

    caller                                              answerer
    {"hello": ..., "link": ...}              ->
                                             <-         {"hello": ...}                 without a token, that is all

    {"hello": ..., "link": ..., "nonce": C}  ->
                                             <-         {"nonce": A}
    {"proof": of hello, link, C and A}       ->
                                             <-         {"hello": ..., "proof": of all that was said}

The caller proves first: a stranger who calls learns nothing that a guess at the token could be tested against. The
answerer replies `{"refused": true}` to a caller that has another token or none.

With a banner the answerer speaks first, and the caller says nothing until it has heard it: what listens there may be
a running job, which must not be disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tfdist.net.hello import Hello
from tfdist.net.line_socket import MAX_PEER_LINE_BYTES, LineError, LineSocket, Message
from tfdist.net.shared_token import VARIABLE, Role, Token, fresh_nonce, transcript

INTRODUCTION_SECONDS = 5.0
WITHOUT_TOKEN = f"has no {VARIABLE}, and this one has one"
WITH_TOKEN = f"has a {VARIABLE}, and this one has none"
OTHER_TOKEN = f"has another {VARIABLE} than this one"
ONE_TOKEN = "Set the same on every host, or on none"

HelloT = TypeVar("HelloT", bound=Hello)


@dataclass(frozen=True)
class Introduction(Generic[HelloT]):
    """The way in which this process introduces itself, and in which the others must.

    Attributes:
        hello: This process's hello; the others' are of its class.
        token: The secret that all share; None where the network is trusted.
        banner: What an answerer says first; None when the caller begins.
        seconds: How long the other side may take.
        line_bytes: The longest message from a process that has introduced itself.
    """

    hello: HelloT
    token: Token | None = None
    banner: Message | None = None
    seconds: float = INTRODUCTION_SECONDS
    line_bytes: int = MAX_PEER_LINE_BYTES

    def read(self, message: Message) -> HelloT:
        """The other side's hello. Raises LineError when the message is not one."""
        return type(self.hello).from_message(message)

    def keep(self, line: LineSocket, met: Met[HelloT], own: Role) -> None:
        """Prepares the line for what follows the introduction: longer messages, sealed where there is a token."""
        line.allow(self.line_bytes)
        if self.token is not None:
            other: Role = "answerer" if own == "caller" else "caller"
            line.protect(self.token.seal(own, met.said), self.token.seal(other, met.said))


@dataclass(frozen=True)
class Met(Generic[HelloT]):
    """A process that has introduced itself, and has proved that it has the token if there is one.

    Attributes:
        hello: Who it is.
        link: Whether the caller asked to keep the line.
        said: All that was said, which the seals of the line depend on.
    """

    hello: HelloT
    link: bool
    said: bytes


@dataclass(frozen=True)
class Reply(Generic[HelloT]):
    """The reply to a message: what it led to.

    Attributes:
        say: What to send now.
        met: The other side, once it is known.
        mismatch: How its token does not fit, in words that follow "the launcher ..."; nothing more will come.
    """

    say: Message | None = None
    met: Met[HelloT] | None = None
    mismatch: str | None = None


class CallerSide(Generic[HelloT]):
    """The caller's side of one introduction.

    Args:
        link: Whether to ask for the line to stay.

    Attributes:
        opening: What to send before anything has come; None when the answerer begins.
    """

    def __init__(self, introduction: Introduction[HelloT], *, link: bool) -> None:
        self._introduction = introduction
        self._token = introduction.token
        self._link = link
        self._request = introduction.hello.to_message(link=link)
        if self._token is not None:
            self._request["nonce"] = fresh_nonce()
        self._awaits_banner = introduction.banner is not None
        self._challenge: Message | None = None
        self.opening = None if self._awaits_banner else self._request

    def hear(self, message: Message) -> Reply[HelloT]:
        """Takes in the answerer's next message.

        Raises:
            LineError: It does not belong to an introduction.
        """
        if self._awaits_banner:
            if message != self._introduction.banner:
                raise LineError("a message that is not the banner")
            self._awaits_banner = False
            return Reply(say=self._request)
        if self._token is None:
            if "nonce" in message:
                return Reply(mismatch=WITH_TOKEN)
            return Reply(met=Met(self._introduction.read(message), self._link, b""))
        if self._challenge is None:
            return self._prove(self._token, message)
        return self._check(self._token, self._challenge, message)

    def _prove(self, token: Token, message: Message) -> Reply[HelloT]:
        if "hello" in message:
            return Reply(mismatch=WITHOUT_TOKEN)
        self._challenge = {"nonce": _nonce(message)}
        return Reply(say={"proof": token.proof("caller", transcript(self._request, self._challenge))})

    def _check(self, token: Token, challenge: Message, message: Message) -> Reply[HelloT]:
        if "refused" in message:
            return Reply(mismatch=OTHER_TOKEN)
        hello = self._introduction.read(message)
        said = transcript(self._request, challenge, {"hello": message["hello"]})
        if not token.proves("answerer", said, message.get("proof")):
            return Reply(mismatch=OTHER_TOKEN)
        return Reply(met=Met(hello, self._link, said))


class AnswererSide(Generic[HelloT]):
    """The answerer's side of one introduction.

    Attributes:
        opening: What to send before anything has come; None when the caller begins.
    """

    def __init__(self, introduction: Introduction[HelloT]) -> None:
        self._introduction = introduction
        self._token = introduction.token
        self._asked: tuple[HelloT, Message, Message] | None = None
        self.opening = introduction.banner

    def hear(self, message: Message) -> Reply[HelloT]:
        """Takes in the caller's next message.

        Raises:
            LineError: It does not belong to an introduction.
        """
        if self._asked is not None and self._token is not None:
            return self._check(self._token, *self._asked, message)
        theirs = self._introduction.read(message)
        link = message.get("link") is True
        if self._token is None:
            mismatch = WITH_TOKEN if "nonce" in message else None
            return Reply(self._introduction.hello.to_message(), Met(theirs, link, b""), mismatch)
        challenge = {"nonce": fresh_nonce()}
        if "nonce" not in message:
            # The caller learns from the challenge that this side has a token.
            return Reply(challenge, mismatch=WITHOUT_TOKEN)
        opening = {"hello": message["hello"], "link": link, "nonce": _nonce(message)}
        self._asked = (theirs, opening, challenge)
        return Reply(challenge)

    def _check(
        self, token: Token, theirs: HelloT, opening: Message, challenge: Message, message: Message
    ) -> Reply[HelloT]:
        if not token.proves("caller", transcript(opening, challenge), message.get("proof")):
            return Reply({"refused": True}, mismatch=OTHER_TOKEN)
        hello = self._introduction.hello.to_message()["hello"]
        said = transcript(opening, challenge, {"hello": hello})
        answer = {"hello": hello, "proof": token.proof("answerer", said)}
        return Reply(answer, Met(theirs, bool(opening["link"]), said))


def _nonce(message: Message) -> str:
    nonce = message.get("nonce")
    if not isinstance(nonce, str) or not nonce:
        raise LineError("an introduction without its nonce")
    return nonce
