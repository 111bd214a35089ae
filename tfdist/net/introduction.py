"""How two launchers that meet introduce themselves, and prove that they have the same token: decides, sends nothing.

::

    caller                                              answerer
    {"hello": ..., "link": ...}              ->
                                             <-         {"hello": ...}                 without a token, that is all

    {"hello": ..., "link": ..., "nonce": C}  ->
                                             <-         {"nonce": A}
    {"proof": of hello, link, C and A}       ->
                                             <-         {"hello": ..., "proof": of all that was said}

The caller proves first: a stranger who calls learns nothing that a guess at the token could be tested against. What
the answerer says to a caller that has no token, or another one, is `{"refused": true}`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.net.shared_token import VARIABLE, Role, Token, fresh_nonce, transcript

WITHOUT_TOKEN = f"has no {VARIABLE}, and this one has one"
WITH_TOKEN = f"has a {VARIABLE}, and this one has none"
OTHER_TOKEN = f"has another {VARIABLE} than this one"
ONE_TOKEN = "Set the same on every host, or on none"


@dataclass(frozen=True)
class Met:
    """A launcher that has introduced itself, and has proved that it has the token if there is one.

    Attributes:
        hello: Who it is.
        link: Whether the caller asked for the line to stay.
        said: All that was said, which the seals of the line depend on.
    """

    hello: Hello
    link: bool
    said: bytes


@dataclass(frozen=True)
class Reply:
    """What a message led to.

    Attributes:
        say: What to send now.
        met: The other side, once it is known.
        mismatch: How its token does not fit, in words that follow "the launcher ..."; nothing more will come.
    """

    say: Message | None = None
    met: Met | None = None
    mismatch: str | None = None


def keep(line: LineSocket, token: Token | None, met: Met, own: Role) -> None:
    """Makes of a stranger's line one that stays: for long messages, and sealed where there is a token."""
    line.trust()
    if token is not None:
        other: Role = "answerer" if own == "caller" else "caller"
        line.protect(token.seal(own, met.said), token.seal(other, met.said))


class Call:
    """The caller's side of one conversation.

    Args:
        hello: This launcher's.
        link: Whether to ask for the line to stay.
        token: The job's secret, if it has one.
    """

    def __init__(self, hello: Hello, token: Token | None, *, link: bool) -> None:
        self.opening: Message = hello.to_message(link=link)
        if token is not None:
            self.opening["nonce"] = fresh_nonce()
        self._token = token
        self._link = link
        self._challenge: Message | None = None

    def hear(self, message: Message) -> Reply:
        """Takes in the answerer's next message.

        Raises:
            LineError: It is none of a tfdist launcher.
        """
        if self._token is None:
            if "nonce" in message:
                return Reply(mismatch=WITH_TOKEN)
            return Reply(met=Met(Hello.from_message(message), self._link, b""))
        if self._challenge is None:
            return self._prove(self._token, message)
        return self._check(self._token, self._challenge, message)

    def _prove(self, token: Token, message: Message) -> Reply:
        if "hello" in message:
            return Reply(mismatch=WITHOUT_TOKEN)
        self._challenge = {"nonce": _nonce(message)}
        return Reply(say={"proof": token.proof("caller", transcript(self.opening, self._challenge))})

    def _check(self, token: Token, challenge: Message, message: Message) -> Reply:
        if "refused" in message:
            return Reply(mismatch=OTHER_TOKEN)
        hello = Hello.from_message(message)
        said = transcript(self.opening, challenge, {"hello": message["hello"]})
        if not token.proves("answerer", said, message.get("proof")):
            return Reply(mismatch=OTHER_TOKEN)
        return Reply(met=Met(hello, self._link, said))


class Answer:
    """The answerer's side of one conversation.

    Args:
        hello: This launcher's.
        token: The job's secret, if it has one.
    """

    def __init__(self, hello: Hello, token: Token | None) -> None:
        self._hello = hello
        self._token = token
        self._asked: tuple[Hello, Message, Message] | None = None

    def hear(self, message: Message) -> Reply:
        """Takes in the caller's next message.

        Raises:
            LineError: It is none of a tfdist launcher.
        """
        if self._asked is not None and self._token is not None:
            return self._check(self._token, *self._asked, message)
        theirs = Hello.from_message(message)
        link = message.get("link") is True
        if self._token is None:
            say = self._hello.to_message()
            if "nonce" in message:
                return Reply(say, Met(theirs, link, b""), WITH_TOKEN)
            return Reply(say, Met(theirs, link, b""))
        challenge = {"nonce": fresh_nonce()}
        if "nonce" not in message:
            # The caller learns from the challenge that this launcher has a token.
            return Reply(challenge, mismatch=WITHOUT_TOKEN)
        opening = {"hello": message["hello"], "link": link, "nonce": _nonce(message)}
        self._asked = (theirs, opening, challenge)
        return Reply(challenge)

    def _check(self, token: Token, theirs: Hello, opening: Message, challenge: Message, message: Message) -> Reply:
        if not token.proves("caller", transcript(opening, challenge), message.get("proof")):
            return Reply({"refused": True}, mismatch=OTHER_TOKEN)
        hello = self._hello.to_message()["hello"]
        said = transcript(opening, challenge, {"hello": hello})
        answer = {"hello": hello, "proof": token.proof("answerer", said)}
        return Reply(answer, Met(theirs, bool(opening["link"]), said))


def _nonce(message: Message) -> str:
    nonce = message.get("nonce")
    if not isinstance(nonce, str) or not nonce:
        raise LineError("a message of a tfdist launcher without its nonce")
    return nonce
