""""""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tfdist.cluster.kubernetes import expand_workers
from tfdist.errors import UsageError
from tfdist.multihost.kubernetes import accepted_values as accepted
from tfdist.multihost.kubernetes.accepted_values import Kind, check_lengths, worker_pattern


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            lambda text: accepted.check_dns_label("--name", text),
            ["a", "digits-4", "a" * 63],
            ["", "4digits", "Digits", "digits-", "digits_4", "di.gits", "a" * 64, "a\n", "dígits"],
        ),
        (
            lambda text: accepted.check_object_name("--token-secret", text),
            ["a", "4a", "runs.example.com", "a" * 253],
            ["", "-a", "a.", "a..b", "A", "a/b", "a" * 254, "a\n"],
        ),
        (
            lambda text: accepted.check_quantity("--memory", text, "32Gi"),
            ["1", "0.5", "500m", "32Gi", "100k", "1.5T"],
            ["", "0", "0Gi", "-1", "1GB", "1 Gi", "1e3", "Gi", "1.", "1Gi\n"],
        ),
        (accepted.check_image, ["a", "r.io/a/b:1", "a@sha256:00", "localhost:5000/a"], ["", "a b", "/a", "a;b", "a\n"]),
        (
            lambda text: accepted.check_absolute("--run-dir", text),
            ["/a", "/a/b.c", "/a/b c"],
            ["", "a", "/", "/a/", "/a//b", "/a/../b", "//a", "/a:b", "./a", "/a/./b"],
        ),
        (
            lambda text: accepted.check_label("--label", *text.split("=", 1)),
            ["a=", "a=b", "example.com/a=B_c.d", "a=" + "b" * 63],
            ["=a", "a=b c", "a=-b", "A.com/a=b", "a/=b", "/a=b", "a/b/c=d", "a=" + "b" * 64, "a" * 64 + "=b", "a=b\n"],
        ),
        (
            lambda text: accepted.check_variables("--env", text.split(","), reserved={"TF_CONFIG": "it lists them"}),
            ["A", "_a1,B"],
            ["", "1A", "A-B", "A,A", "TF_CONFIG", "A\n", "É"],
        ),
        (lambda text: accepted.check_text([text]), ["é", "\n"], ["\udcff"]),
    ],
    ids=["dns label", "object", "quantity", "image", "path", "label", "variable", "text"],
)
def test_what_is_taken_and_what_is_refused(check: Callable[[str], Any], good: list[str], bad: list[str]) -> None:
    for text in good:
        check(text)
    for text in bad:
        with pytest.raises(UsageError, match="Received: "):
            check(text)


def test_a_refusal_names_the_option_and_what_was_expected() -> None:
    with pytest.raises(UsageError) as raised:
        accepted.check_quantity("--memory", "32GB", "32Gi")
    assert str(raised.value) == (
        "--memory takes a quantity as Kubernetes writes it. Expected a number above 0 and its unit, such as 32Gi. "
        "Received: --memory '32GB'"
    )


def test_a_reserved_variable_says_what_to_do_instead() -> None:
    with pytest.raises(UsageError, match="--env cannot set TF_CONFIG: the manifest lists them. Received"):
        accepted.check_variables("--env", ["TF_CONFIG"], reserved={"TF_CONFIG": "the manifest lists them"})


@pytest.mark.parametrize(
    ("kind", "pattern", "last"),
    [
        ("job", "digits-{0-10}.digits:20000", "digits-10.digits"),
        ("jobset", "digits-worker-0-{0-10}.digits:20000", "digits-worker-0-10.digits"),
        ("trainjob", "digits-node-0-{0-10}.digits:20000", "digits-node-0-10.digits"),
    ],
)
def test_pods_find_one_another_by_a_pattern(kind: Kind, pattern: str, last: str) -> None:
    assert worker_pattern(kind, "digits", 11, 20000) == pattern
    workers = expand_workers(pattern).workers
    assert (len(workers), workers[10].host, workers[10].port) == (11, last, 20000)


@pytest.mark.parametrize(
    ("kind", "workers", "most"),
    [("job", 10, 61), ("job", 11, 60), ("jobset", 10, 46), ("jobset", 101, 44), ("trainjob", 2, 48)],
)
def test_the_longest_name(kind: Kind, workers: int, most: int) -> None:
    """63 letters, of the host name, or of the pod's with the five letters and a dash that a JobSet counts."""
    check_lengths(kind, "a" * most, workers)
    with pytest.raises(UsageError, match=f"--name of {most} characters at most. Received: {most + 1}"):
        check_lengths(kind, "a" * (most + 1), workers)
