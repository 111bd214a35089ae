from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.comparison import host_facts as module
from benchmarks.comparison.host_facts import describe, host_facts, is_busy


def test_the_facts_name_the_processor_the_versions_and_what_was_asked_of_tensorflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    facts = host_facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["flags"].split() and set(facts["vector_flags"]) <= set(facts["flags"].split())
    assert facts["flags"] in Path("/proc/cpuinfo").read_text()
    text = "\n".join(describe({**facts, "load": 0.1}, {"torch": "2.13.0"}))
    assert "TF_ENABLE_ONEDNN_OPTS: 1." in text and "PyTorch 2.13.0" in text and "tensorflow" in text
    assert "Something else" not in text


def test_a_machine_that_is_not_quiet_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (1.5, 0.0, 0.0))
    facts = host_facts()
    assert is_busy(facts)
    text = "\n".join(describe(facts, None))
    assert "Something else" in text and "TF_ENABLE_ONEDNN_OPTS: not set. Load when it began: 1.50." in text
