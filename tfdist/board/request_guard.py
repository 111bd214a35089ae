"""Guard of the board: who may ask, and what every answer tells the browser to leave alone."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        # Scripts and styles from the board's own files alone, and no way from a text into a script.
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
        # Each call has a bound of time, which begins with its connection.
        "Connection": "close",
    }
)
"""Of every answer."""

_METHODS = ("GET", "HEAD")
_TOKEN_BYTES = 24


@dataclass(frozen=True)
class Refusal:
    """The reason why a request is refused.

    Attributes:
        status: The status of HTTP.
        why: The reason, in words for who sees it in the browser.
        headers: Further headers.
    """

    status: int
    why: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Guard:
    """Decides on requests.

    Attributes:
        host: Where the board listens: `127.0.0.1`, or what `--host` says.
        port: Its port, which is in the cookie's name: browsers give all ports of a host the same cookies.
        token: What a request must have, in its address or in the cookie.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES), repr=False)

    @property
    def cookie(self) -> str:
        """The cookie's name."""
        return f"tfdist-board-{self.port}"

    @property
    def url(self) -> str:
        """The address of the board, with its token."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/?token={self.token}"

    def refusal(self, method: str, host: str, given: str | None, cookie: str | None) -> Refusal | None:
        """Returns why a request is refused; None where it is answered.

        Args:
            host: Its `Host` header.
            given: The token in its address; None without one.
            cookie: The value of the cookie; None without one.
        """
        if method not in _METHODS:
            allowed = ", ".join(_METHODS)
            return Refusal(405, f"The board changes nothing: it answers {allowed} alone.", {"Allow": allowed})
        if not self._is_own(host):
            return Refusal(
                400,
                "The board is not called by this name. Expected 127.0.0.1 or localhost in the address, or an IP "
                "address where it listens on others.",
            )
        if not any(self._is_token(word) for word in (given, cookie)):
            return Refusal(
                403, "The token of this board is missing. Open the address that `tfdist board` has printed, all of it."
            )
        return None

    def _is_token(self, word: str | None) -> bool:
        return word is not None and hmac.compare_digest(word.encode(errors="replace"), self.token.encode())

    def _is_own(self, header: str) -> bool:
        """Whether no other site can have had the browser call: another's name may lead here, a number may not."""
        name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
        name = name.strip("[]").lower()
        if name == "localhost":
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not _is_loopback(self.host) and name in (self.host.lower(), socket.gethostname().lower())
        return address.is_loopback or not _is_loopback(self.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
