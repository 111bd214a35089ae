"""The secret that the launchers of one job share (`TFDIST_TOKEN`): proofs of having it and seals; it is never sent.

A side proves that it has the token by an HMAC-SHA256 (RFC 2104) over all that both have said, with a fresh nonce of
each. Lines that are kept are sealed: every message carries a MAC over its bytes and its place in the conversation,
under a key that belongs to this conversation and this direction. A message that was changed, left out, repeated, taken
from another conversation or sent back to its sender is thus noticed. Nothing is encrypted.
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
    """A random number that was never used before, as text."""
    return secrets.token_hex(_NONCE_BYTES)


def transcript(*messages: Mapping[str, Any]) -> bytes:
    """Returns what was said, in the form that both sides compute: JSON with sorted keys."""
    return json.dumps(messages, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Token:
    """The secret of one job.

    Attributes:
        secret: Its text; left out of the object's repr.
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
        """The proof that the side in `role` sends, in a conversation in which `said` was said."""
        return self._mac(b"proof " + role.encode(), said).hex()

    def proves(self, role: Role, said: bytes, proof: object) -> bool:
        """Returns whether `proof` shows that the other side, in `role`, has the same token."""
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
    """Seal of one direction of a line; both ends have the same key and count.

    Args:
        key: Belongs to this conversation and this direction.
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
