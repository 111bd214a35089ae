from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.comparison.host_facts import describe, host_facts


def test_the_facts_name_the_processor_the_versions_and_what_was_asked_of_tensorflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    facts = host_facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["flags"].split() and set(facts["vector_flags"]) <= set(facts["flags"].split())
    assert facts["flags"] in Path("/proc/cpuinfo").read_text()
    text = "\n".join(describe(facts, {"torch": "2.13.0"}))
    assert "TF_ENABLE_ONEDNN_OPTS: 1." in text and "PyTorch 2.13.0" in text and "tensorflow" in text
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    assert "TF_ENABLE_ONEDNN_OPTS: not set." in "\n".join(describe(host_facts(), None))
