"""Logs of steps of one's own that no replica can give."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tests.devices.mirrored import mirrored
from tests.exactness.step_cases import OwnTracker, of
from tests.exactness.table import numbers
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")


class OwnPerplexity(OwnTracker):
    def train_step(self, data: Any) -> dict[str, Any]:
        logs = super().train_step(data)
        return {**logs, "perplexity": keras.ops.exp(logs["loss"])}


def test_a_log_computed_from_the_result_of_a_metric_is_refused() -> None:
    x, y = numbers(8)
    with mirrored(2).scope():
        model = of(OwnPerplexity)
        model.compile("sgd")
        with pytest.raises(UnsupportedError, match=r"'perplexity' .* computed from the result of the metric 'total'"):
            model.fit(x, y, verbose=0)
    alone = of(OwnPerplexity)
    alone.compile("sgd")
    assert {"loss", "perplexity"} <= set(alone.fit(x, y, verbose=0).history)
