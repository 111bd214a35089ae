"""The site's search, in a browser: a word of the pages leads to the section that explains it."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.helpers.pages import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--remote-debugging-port=0"),
]
SECONDS = 60
WANTED = {
    "--shard-over": "commands/#tfdist-train",
    "straggler": "status/#stragglers",
    "BatchNormalization": "exactness/",
}
"""What is searched for, and where a result has to lead."""

PROBE = """<!doctype html><iframe id="site" width="1400" height="900"></iframe><script>
const words = WORDS, found = {};
const frame = document.getElementById("site");
function links() {
  return [...frame.contentDocument.querySelectorAll("a.md-search-result__link")].map(link => link.href);
}
function ask(place) {
  if (place === words.length) { fetch("/found", {method: "POST", body: JSON.stringify(found)}); return; }
  frame.onload = () => {
    const look = setInterval(() => {
      if (links().length) { clearInterval(look); found[words[place]] = links(); ask(place + 1); }
    }, 100);
  };
  frame.src = "/?q=" + encodeURIComponent(words[place]);
}
ask(0);
</script>"""
"""Searches for one after another in the site's own field, and says what the site shows.

In the browser's own time: one that is asked for a page and no more ends before the search has read its index.
"""

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
    pytest.mark.skipif(importlib.util.find_spec("material") is None, reason='needs the site: pip install -e ".[docs]"'),
    pytest.mark.bound(400),
]


class Site(SimpleHTTPRequestHandler):
    """Serves the built site, and takes what the probe has found."""

    found: queue.Queue[dict[str, list[str]]] = queue.Queue()

    def do_POST(self) -> None:
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the site is served, with the probe beside it."""
    folder = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(build, cwd=ROOT, check=True, timeout=200, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    (folder / "probe.html").write_text(PROBE.replace("WORDS", json.dumps(list(WANTED))))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_search_leads_to_the_section_that_explains_it(address: str, tmp_path: Path) -> None:
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"{address}/probe.html"]
    with (tmp_path / "chromium.log").open("wb") as log:
        browser = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            found = Site.found.get(timeout=SECONDS)
        except queue.Empty:
            pytest.fail(f"not all of {list(WANTED)} found anything within {SECONDS} s")
        finally:
            os.killpg(browser.pid, 9)
            browser.wait()
    for words, section in WANTED.items():
        assert [link for link in found[words] if section in link] != [], (words, found[words])
