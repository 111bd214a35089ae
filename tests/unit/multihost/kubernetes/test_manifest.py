""""""

from __future__ import annotations

import re

import pytest
import yaml

from tests.unit.multihost.kubernetes.test_manifest_options import options
from tfdist import errors
from tfdist.multihost.kubernetes.manifest import manifest_text, objects, pod_failure_policy


def action(code: int, conditions: tuple[str, ...] = ()) -> str:
    """What Kubernetes does with a pod that failed, by the first rule that fits; Count where none does."""
    for rule in pod_failure_policy("worker")["rules"]:
        codes = rule.get("onExitCodes")
        if codes is None:
            assert rule["onPodConditions"]
            fits = any(condition["type"] in conditions for condition in rule["onPodConditions"])
        else:
            assert (codes["containerName"], codes["operator"]) == ("worker", "In")
            fits = code in codes["values"]
        if fits:
            return str(rule["action"])
    return "Count"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.UsageError, "FailJob"),
        (errors.ConfigError, "FailJob"),
        (errors.RunDirError, "FailJob"),
        (errors.DataError, "FailJob"),
        (errors.FormingError, "Count"),
        (errors.WorkerFailedError, "Count"),
        (errors.StoreError, "Count"),
    ],
)
def test_errors_of_tfdist(error: type[errors.TfdistError], expected: str) -> None:
    assert action(error.exit_code) == expected


@pytest.mark.parametrize(
    ("code", "conditions", "expected"),
    [
        (143, (), "Ignore"),  # all launchers end with it when one pod is asked to stop
        (137, (), "Count"),  # killed, by the kernel for its memory, say
        (137, ("DisruptionTarget",), "Ignore"),  # by Kubernetes, to make room
        (2, ("DisruptionTarget",), "Ignore"),
        (1, ("PodScheduled",), "Count"),
        (7, (), "Count"),  # the script's own
    ],
)
def test_other_ends(code: int, conditions: tuple[str, ...], expected: str) -> None:
    assert action(code, conditions) == expected


READ_IN_ANOTHER_WAY = ["y", "N", "on", "Off", "1e3", "1:30", "0x1f", "1_000", "012", ".5", "~", "null", "NaN", "", " a"]
"""By kubectl's parser or by PyYAML's, where they are not quoted."""


@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_the_text_is_the_objects(kind: str) -> None:
    made = options(kind=kind, env=(("A", "1"),))
    text = manifest_text(made, [kind, "digits.yaml"])
    assert list(yaml.safe_load_all(text)) == objects(made)
    assert manifest_text(made, [kind, "digits.yaml"]) == text
    assert "&" not in text and text.count("\n---\n") == len(objects(made))


def test_the_command_is_in_a_comment_of_one_line() -> None:
    text = manifest_text(options(), ["job", "--set", "a=b c\n---\nkind: Pod", "\u2028\x85", "é.yaml"])
    lines = text.splitlines()
    assert lines[0].startswith("# Made by tfdist ")
    assert lines[1] == r"#     tfdist manifest job --set 'a=b c\n---\nkind: Pod' '\u2028\x85' 'é.yaml'"
    assert [line for line in lines if not line.startswith("#")][0] == "---"


@pytest.mark.parametrize("value", [*READ_IN_ANOTHER_WAY, "a: b", "# a", "- a", "a\nb", "\t", "'\"", "é", "\U0001f600"])
def test_texts_stay_texts(value: str) -> None:
    text = manifest_text(options(env=(("A", value),), arguments=("a.py", value)), ["job"])
    job = list(yaml.safe_load_all(text))[-1]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1] == {"name": "A", "value": value} and container["command"][-1] == value
    assert re.search(r'- name: A\n +value: "', text)


def test_long_texts_are_not_folded() -> None:
    value = "word " * 100
    assert f'value: "{value}"\n' in manifest_text(options(env=(("A", value),)), ["job"])
