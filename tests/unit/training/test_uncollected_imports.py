from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from tfdist.training.worker import uncollected_imports

CODE = """
import gc
from tfdist.training.worker import uncollected_imports
class Node: pass
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
with uncollected_imports():
    kept = [[number] for number in range(100_000)]
assert not collections, collections
assert gc.isenabled() and gc.get_freeze_count() >= 100_000
import weakref
node = Node(); node.itself = node; ended = weakref.ref(node); del node
gc.collect()
assert ended() is None
"""


def test_nothing_is_collected_within_and_later_garbage_is() -> None:
    # In a process of its own: what is frozen stays so.
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr


def test_a_failed_import_leaves_collection_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with pytest.raises(ImportError), uncollected_imports():
        raise ImportError("no TensorFlow")
    assert gc.isenabled()


def test_collection_that_is_off_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("frozen"))
    gc.disable()
    try:
        with uncollected_imports():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
