"""Kernels of hosts that differ."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tfdist.errors import FormingError
from tfdist.launch.job_terms import (
    agreed_kernels,
    check_agreement,
    check_options,
    check_settings,
    terms_of,
)
from tfdist.launch.rendezvous.hello_agreement import disagreement
from tfdist.launch.worker.kernel_choice import KernelChoice, Processor, choose_kernels
from tfdist.net.hello import PROTOCOL, Hello

CONFIG = {"fit.epochs": 3, "model.args.hidden": (8, 4), "model.args.names": {1: "a"}}


@pytest.mark.parametrize("settings", [None, {}, CONFIG])
def test_what_came_through_json_is_the_same(settings: dict[str, object] | None) -> None:
    check_settings(settings, json.loads(json.dumps(settings)))


@pytest.mark.parametrize(
    ("mine", "chiefs", "differing"),
    [
        ({"fit.epochs": 3}, {"fit.epochs": 4}, r"fit.epochs: 3 on \S+, 4 on the chief's host"),
        ({"seed": 1, "fit.epochs": 3}, {"fit.epochs": 3}, "seed: 1 on .*, nothing on the chief"),
        ({"fit.epochs": 3}, {"seed": None, "fit.epochs": 3}, "seed: nothing on .*, null on the chief"),
        (None, CONFIG, "a script on .*, a config on the chief"),
        (CONFIG, None, "a config on .*, a script on the chief"),
        ({str(n): n for n in range(8)}, {str(n): -1 for n in range(8)}, "(?s)0: 0 .*4: 4 .*and 3 more"),
    ],
)
def test_what_differs_is_named(mine: dict | None, chiefs: dict | None, differing: str) -> None:
    with pytest.raises(FormingError, match=differing):
        check_settings(mine, chiefs)


def test_options_that_decide_what_the_workers_exchange() -> None:
    options = {"--batch-norm": "synchronized", "--compression": "none"}
    check_options(options, dict(options))
    with pytest.raises(FormingError, match=r"--batch-norm: replica on \S+, synchronized on the chief's host") as raised:
        check_options(options | {"--batch-norm": "replica"}, options)
    assert "--compression" not in str(raised.value)


@pytest.mark.parametrize("terms", [{}, {"settings": {}}, {"settings": 3, "options": {}}, {"options": []}])
def test_what_no_launcher_of_this_version_sends_is_refused(terms: dict[str, object]) -> None:
    with pytest.raises(FormingError, match="Received: .* Install the same version"):
        check_agreement(terms, None, {})


def test_all_that_must_agree_is_compared() -> None:
    check_agreement({**terms_of({"a": 1}, {"--b": "c"}, "onednn"), "more": 1}, {"a": 1}, {"--b": "c"})
    for settings, options in (({"a": 2}, {"--b": "c"}), ({"a": 1}, {"--b": "d"})):
        with pytest.raises(FormingError, match="do not agree"):
            check_agreement(terms_of({"a": 1}, {"--b": "c"}), settings, options)


OLD = Processor(flags=frozenset({"avx"}))
AVX2 = Processor(flags=frozenset({"fma", "avx2"}))
VNNI = Processor(flags=AVX2.flags | {"avx512_vnni"})


def chosen(processor: Processor, said: str | None = None, has_gpu: bool = False) -> KernelChoice:
    environ = {} if said is None else {"TF_ENABLE_ONEDNN_OPTS": said}
    return choose_kernels("auto", environ, processor, has_gpu=has_gpu)


@pytest.mark.parametrize(
    ("mine", "chiefs", "kernels", "setting"),
    [
        (chosen(AVX2), chosen(VNNI), "onednn", "onednn"),
        (chosen(VNNI), chosen(AVX2), "onednn", "auto"),
        (chosen(OLD), chosen(AVX2), "onednn", "onednn"),
        (chosen(AVX2), chosen(OLD), "tensorflow", "tensorflow"),
        (chosen(VNNI), chosen(VNNI, "0"), "tensorflow", "tensorflow"),
        (chosen(VNNI, "0"), chosen(OLD), "tensorflow", "auto"),
        (chosen(AVX2), chosen(AVX2, has_gpu=True), "onednn", "onednn"),
        (chosen(AVX2, has_gpu=True), chosen(AVX2), None, "auto"),
    ],
)
def test_every_host_takes_those_of_the_chiefs(
    mine: KernelChoice, chiefs: KernelChoice, kernels: str | None, setting: str
) -> None:
    agreed = agreed_kernels(mine, terms_of(None, {}, chiefs.kernels))
    assert (agreed.kernels, agreed.setting) == (kernels, setting)


def test_an_environment_that_contradicts_the_chiefs_is_refused() -> None:
    with pytest.raises(FormingError) as refused:
        agreed_kernels(chosen(VNNI, "0"), terms_of(None, {}, "onednn"))
    first, mine, chiefs, remedy = str(refused.value).splitlines()
    assert "do not agree on the kernels" in first
    assert mine.startswith("  TensorFlow's own kernels on ") and mine.endswith("TF_ENABLE_ONEDNN_OPTS=0")
    assert chiefs == "  oneDNN's kernels on the chief's host"
    assert "on all of them or on none" in remedy


@pytest.mark.parametrize("sent", ["auto", 1, ["onednn"], "mkl"])
def test_what_no_launcher_of_this_version_sends_is_refused_of_kernel_agreement(sent: object) -> None:
    with pytest.raises(FormingError, match="Received: .* Install the same version"):
        agreed_kernels(chosen(AVX2), {"kernels": sent})


VERSIONS = {"python": "3.11", "tfdist": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1"}
MINE = Hello("m", "host-a", "a:1,b:1,c:1", (0,), VERSIONS)
THEIRS = Hello("t", "host-b", "a:1,b:1,c:1", (1,), VERSIONS)


@pytest.mark.parametrize(
    ("changed", "reached", "says"),
    [
        ({}, None, None),
        ({}, 1, None),
        ({"cluster": "a:1,c:1,d:1"}, None, "another worker list"),
        ({"cluster": "a:1,c:1,b:1"}, None, "the workers in another order"),
        ({"versions": {**VERSIONS, "keras": "3.14.0"}}, None, "keras 3.15.1 here and 3.14.0 there"),
        ({"versions": {**VERSIONS, "tfdist": "0.2.0"}}, None, "tfdist 0.1.0 here and 0.2.0 there"),
        ({"versions": {**VERSIONS, "tensorflow": "2.20.0"}}, 1, "tensorflow 2.21.0 here and 2.20.0 there"),
        ({"versions": {}}, None, "python 3.11 here and None there"),
        ({"protocol": PROTOCOL + 1}, None, "another version of tfdist"),
        ({"local": (0,)}, None, "started twice: here and by the launcher on host-b"),
        ({"local": (2,)}, 1, "starts worker(s) 2"),
        ({"sender": "m"}, 1, "leads back to this machine"),
    ],
)
def test_what_does_not_fit_is_found(changed: dict[str, Any], reached: int | None, says: str | None) -> None:
    found = disagreement(MINE, dataclasses.replace(THEIRS, **changed), reached)
    assert (found is None) == (says is None)
    assert says is None or says in (found or "")
