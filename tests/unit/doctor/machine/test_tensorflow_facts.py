from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.unit.doctor.machine.probe_answers import ONE, TOLD
from tfdist.doctor.machine.tensorflow_facts import BrokenTensorFlow, ProbeRequest, TensorFlowFacts, probe, understand

REQUEST = ProbeRequest(1, 0, 1, 20)


def printing(*messages: dict[str, Any], then: str = "") -> tuple[str, ...]:
    """A probe that prints some messages and then does something."""
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    return sys.executable, "-c", f"import os, signal, sys\nprint({lines!r}, end='', flush=True)\n{then}"


def test_facts_are_read() -> None:
    found = probe(REQUEST, printing({"stage": "import TensorFlow"}, {"facts": {**TOLD, **ONE}}))
    assert isinstance(found, TensorFlowFacts)
    assert (found.tensorflow, found.devices, found.refused) == ("2.21.0", ("/device:CPU:0",), "")


def test_the_probe_gets_the_request() -> None:
    told = {**TOLD, **ONE, "cuda": "?"}
    command = printing(
        then=f"import json\ntold = {told!r}\ntold['cuda'] = sys.argv[1]\nprint(json.dumps({{'facts': told}}))"
    )
    found = probe(ProbeRequest(4, 1, 2, 20), command)
    assert isinstance(found, TensorFlowFacts)
    assert json.loads(found.cuda) == {"workers": 4, "rank": 1, "size": 2, "seconds": 20}


@pytest.mark.parametrize(
    ("then", "what"),
    [
        ("raise ImportError('libcudart.so.12: no such file')", "failed at 'import TensorFlow': ImportError: libcudart"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV at 'import TensorFlow'"),
        ("sys.exit(3)", "failed at 'import TensorFlow': exit code 3"),
    ],
)
def test_a_tensorflow_that_does_not_import_or_crashes_is_a_finding(then: str, what: str) -> None:
    found = probe(REQUEST, printing({"stage": "import TensorFlow"}, then=then))
    assert isinstance(found, BrokenTensorFlow)
    assert found.what.startswith(what)


def test_a_tensorflow_that_hangs_is_a_finding_with_its_stack() -> None:
    then = "import faulthandler\nfaulthandler.dump_traceback_later(0.1, exit=True)\nsignal.pause()"
    found = probe(ProbeRequest(1, 0, 1, 20), printing({"stage": "look for GPUs"}, then=then))
    assert isinstance(found, BrokenTensorFlow)
    assert found.what == "did not get through 'look for GPUs' within 20 s"
    assert found.hung and "line 5 in <module>" in found.output[2]


def test_a_probe_that_exceeds_its_bound_is_killed() -> None:
    found = probe(ProbeRequest(1, 0, 1, 0.5), printing(then="signal.pause()"), kill_after=0.0)
    assert found == BrokenTensorFlow("did not get through 'start' within 0.5 s", hung=True)


def test_an_incomplete_line_is_skipped() -> None:
    assert understand('{"stage": "import Keras"}\n{"fac', "", -9, None) == BrokenTensorFlow(
        "was ended by SIGKILL at 'import Keras'"
    )
