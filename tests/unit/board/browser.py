"""A browser that a test drives, by the protocol of WebDriver: no package is needed for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs a browser: apt-get install chromium chromium-driver"
)

SECONDS = 60
_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
_ENTER, _RIGHT, _TAB = "\ue007", "\ue014", "\ue004"


class Browser:
    """One window.

    Args:
        port: Where the driver listens.
        profile: Where the browser keeps what it remembers.
    """

    RIGHT, TAB, ENTER = _RIGHT, _TAB, _ENTER

    def __init__(self, port: int, profile: Path) -> None:
        self._port, self._session = port, ""
        options = {"binary": CHROMIUM, "args": [*_ARGUMENTS, f"--user-data-dir={profile}", "--window-size=1300,1000"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def open(self, url: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": "about:blank"})
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str) -> Any:
        """What a function with this body returns."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def text(self) -> str:
        return str(self.run("return document.body.textContent"))

    def wait_for(self, text: str) -> str:
        """The text of the page, once this is in it."""
        until(lambda: text in self.text(), SECONDS)
        return self.text()

    def press(self, keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", f"{self._session}/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def complaints(self) -> list[str]:
        """What the browser has said on its console: errors, and what the page's own policy forbids."""
        return [str(entry["message"]) for entry in self._call("POST", f"{self._session}/se/log", {"type": "browser"})]

    def close(self) -> None:
        self._call("DELETE", self._session)

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, None if content is None else json.dumps(content))
            answer = json.loads(connection.getresponse().read())["value"]
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer


@contextlib.contextmanager
def opened_browser(profile: Path) -> Iterator[Browser]:
    command = [str(DRIVER), "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        late = threading.Timer(5 * SECONDS, os.killpg, (driver.pid, signal.SIGKILL))
        late.start()
        try:
            assert driver.stdout is not None
            said = next(line for line in driver.stdout if "started successfully on port" in line)
            browser = Browser(int(re.findall(r"port (\d+)", said)[0]), profile)
            yield browser
            browser.close()
        finally:
            late.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
