from __future__ import annotations

import json

import pytest

from tfdist.errors import FormingError
from tfdist.launch.rendezvous.config_agreement import check_agreement, check_options, check_settings, terms_of

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
