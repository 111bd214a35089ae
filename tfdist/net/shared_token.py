"""The secret that the launchers of one job share (`TFDIST_TOKEN`): proves and checks, and is never shown or sent.

HMAC-SHA256 (RFC 2104) over what both sides have said, their fresh nonces included, proves that a side has the token.
The lines that stay are sealed: every message carries a MAC over its place in the conversation and its bytes, under a
key of its own for this conversation and this direction. So a message that was changed, left out, repeated, brought
from another conversation or sent back to its sender is noticed. Nothing is encrypted.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tfdist.errors import UsageError

VARIABLE = "TFDIST_TOKEN"
_NONCE_BYTES = 32
_COUNTER_BYTES = 8
_HASH = "sha256"

Role = Literal["caller", "answerer"]


def fresh_nonce() -> str:
    """A number that nobody has used and nobody can guess, as text."""
    return secrets.token_hex(_NONCE_BYTES)


def transcript(*messages: Mapping[str, Any]) -> bytes:
    """What was said, as both sides write it down: JSON with sorted keys."""
    return json.dumps(messages, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Token:
    """The secret of one job.

    Attributes:
        secret: Its text, which no representation of the object shows.
    """

    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        # Secrets from files and from Kubernetes often end in a newline on one host and not on the other.
        object.__setattr__(self, "secret", self.secret.strip())
        if not self.secret:
            raise UsageError(
                f"{VARIABLE} is set and empty, so it would authenticate nobody. Expected the same long random text on "
                "every host, such as `openssl rand -hex 32` prints; or unset it, where the network is trusted."
            )

    def proof(self, role: Role, said: bytes) -> str:
        """What the side in `role` sends to show that it has the token, in a conversation in which this was said."""
        return self._mac(b"proof " + role.encode(), said).hex()

    def proves(self, role: Role, said: bytes, proof: object) -> bool:
        """Whether the other side, in `role`, has the same token."""
        expected = self.proof(role, said).encode()
        return isinstance(proof, str) and hmac.compare_digest(proof.encode(errors="replace"), expected)

    def seal(self, sender: Role, said: bytes) -> Seal:
        """The seal of all further messages from the side in the role `sender`."""
        return Seal(self._mac(b"line " + sender.encode(), said))

    def _mac(self, purpose: bytes, said: bytes) -> bytes:
        # os.environ keeps bytes that are no UTF-8 as surrogates.
        key = self.secret.encode(errors="surrogateescape")
        return hmac.digest(key, purpose + b"\0" + said, _HASH)


class Seal:
    """One direction of a line: the same key and count on both ends.

    Args:
        key: Of this conversation and this direction.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    def close(self, body: bytes) -> bytes:
        """The next message, sealed."""
        return self._next(body) + b" " + body

    def open(self, line: bytes) -> bytes | None:
        """The body of the next message; None when it is not what the other side sealed as its next."""
        mac, _, body = line.partition(b" ")
        return body if hmac.compare_digest(mac, self._next(body)) else None

    def _next(self, body: bytes) -> bytes:
        place = self._count.to_bytes(_COUNTER_BYTES, "big")
        self._count += 1
        return hmac.digest(self._key, place + body, _HASH).hex().encode()
