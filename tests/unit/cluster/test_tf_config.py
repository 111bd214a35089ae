from __future__ import annotations

import json
import subprocess

import pytest

from tfdist.cluster import Cluster, parse_tf_config, tf_config, tf_config_json, tf_config_shell
from tfdist.errors import ClusterError

CLUSTER = Cluster.parse("a:1,b:2")


def test_tf_config_is_what_tensorflow_reads() -> None:
    assert tf_config(CLUSTER, 1) == {
        "cluster": {"worker": ["a:1", "b:2"]},
        "task": {"type": "worker", "index": 1},
    }
    assert parse_tf_config(tf_config_json(CLUSTER, 1)) == (CLUSTER, 1)


def test_an_index_beyond_the_cluster_is_refused() -> None:
    with pytest.raises(ClusterError, match="0 to 1"):
        tf_config(CLUSTER, 2)


def test_a_shell_can_eval_it() -> None:
    script = f'{tf_config_shell(CLUSTER, 0)}\nprintf %s "$TF_CONFIG"'
    printed = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=10).stdout
    assert json.loads(printed) == tf_config(CLUSTER, 0)


@pytest.mark.parametrize(
    ("cluster", "task", "index"),
    [
        ({"chief": ["c:1"], "worker": ["a:1", "b:1"]}, {"type": "chief", "index": 0}, 0),
        ({"chief": ["c:1"], "worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, 2),  # the chief is worker 0
        ({"chief": ["c:1"]}, {"type": "chief", "index": 0}, 0),
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": "1"}, 1),  # as some job managers write it
    ],
)
def test_a_chief_is_worker_0(cluster: object, task: object, index: int) -> None:
    assert parse_tf_config(json.dumps({"cluster": cluster, "task": task}))[1] == index


WORKERS = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"cluster": WORKERS}, 'no "task"'),
        ({"cluster": WORKERS, "task": {"type": "worker"}}, 'no "task"'),
        ({"cluster": WORKERS, "task": {"index": 0}}, 'no "task"'),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 2}}, "task worker 2, and its cluster has 2"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": -1}}, "task worker -1"),
        ({"cluster": WORKERS, "task": {"type": "chief", "index": 0}}, "task chief 0, and its cluster has 0"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 0.5}}, "whole number"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": True}}, "whole number"),
        ({"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}}, "'evaluator'"),
        ({"cluster": {**WORKERS, "ps": ["p:1"]}, "task": {"type": "worker", "index": 0}}, "'ps'"),
        ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}, "more than one chief"),
        ({"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}, "list of host:port"),
        ({"cluster": {"worker": [1]}, "task": {"type": "worker", "index": 0}}, "list of host:port"),
        ({"cluster": {"worker": ["a:1", "b"]}, "task": {"type": "worker", "index": 0}}, "'b' without a port"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}, "the same address"),
        ({"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}}, "at least one worker"),
        ({"task": {"type": "worker", "index": 0}}, 'no "cluster"'),
        ({}, 'no "cluster"'),
        ([], "JSON object"),
    ],
)
def test_a_bad_tf_config_is_refused(value: object, says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        parse_tf_config(json.dumps(value))
    assert says in str(raised.value)
    assert "unset TF_CONFIG" in str(raised.value)


BROKEN = ['{"cluster": ', "[" * 100_000, '{"a":' * 30_000, '{"task": ' + "1" * 5000 + "}"]


@pytest.mark.parametrize("text", BROKEN, ids=len)
def test_broken_json_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="not valid JSON"):
        parse_tf_config(text)


@pytest.mark.parametrize("value", [{"index": "1" * 5000}, {"index": "٣"}, {"index": []}])
def test_an_index_that_is_no_number_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ClusterError, match="whole number"):
        parse_tf_config(json.dumps({"cluster": WORKERS, "task": {"type": "worker", **value}}))
