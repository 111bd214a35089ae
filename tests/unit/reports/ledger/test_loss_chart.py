from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.ledger import loss_chart

SVG = "{http://www.w3.org/2000/svg}"


def epochs(losses: Sequence[float], validation: Sequence[float] = ()) -> list[EpochMetrics]:
    names = ("loss", "val_loss")
    values = zip(losses, validation, strict=True) if validation else ((loss,) for loss in losses)
    return [EpochMetrics(epoch, None, dict(zip(names, found, strict=False))) for epoch, found in enumerate(values)]


def lines(text: str) -> list[list[tuple[float, float]]]:
    found = re.findall(r'points="([^"]*)"', text)
    return [[(float(x), float(y)) for x, y in (point.split(",") for point in line.split())] for line in found]


def test_a_falling_loss_falls() -> None:
    text = loss_chart.render(epochs([3.0, 2.0, 1.0], [1.0, 3.0, 2.0]))
    ElementTree.fromstring(text)
    falling, other = lines(text)
    (x0, y0), (x1, y1), (x2, y2) = falling
    assert x0 < x1 < x2 and y0 < y1 < y2  # from the top
    assert [y for _, y in other] == [y2, y0, y1]
    assert text.count("<circle") == 6 and "<title>val_loss 3 after epoch 2</title>" in text
    assert text.count("stroke-dasharray") == 1


def test_no_loss_no_drawing() -> None:
    assert loss_chart.render([]) == ""
    assert loss_chart.render([EpochMetrics(0, None, {"accuracy": 1.0}), *epochs([math.nan])]) == ""


def test_what_is_no_number_leaves_a_gap() -> None:
    trained = epochs([4.0, 3.0, math.nan, 2.0, 1.0, math.inf, 0.5])
    text = loss_chart.render(trained)
    assert [len(line) for line in lines(text)] == [2, 2]
    assert text.count("<circle") == 5
    assert "loss was no finite number after 2 of 7 epochs." in loss_chart.caption(trained)


def test_another_fit_is_another_line() -> None:
    text = loss_chart.render([*epochs([3.0, 2.0]), *epochs([5.0, 4.0, 3.5])])
    assert [len(line) for line in lines(text)] == [2, 3]


def test_one_epoch() -> None:
    text = loss_chart.render(epochs([2.0], [1.0]))
    assert lines(text) == [] and text.count("<circle") == 2
    assert loss_chart.caption(epochs([2.0], [1.0])) == (
        "loss 2 after epoch 1, its lowest. val_loss 1 after epoch 1, its lowest."
    )


def test_the_lowest_loss_in_words() -> None:
    said = loss_chart.caption(epochs([200.0, 0.5, 1.0]))
    assert said == "loss 1 after epoch 3, at its lowest 0.5 after epoch 2. The scale is logarithmic."


def test_many_epochs_are_thinned_and_the_last_one_stays() -> None:
    text = loss_chart.render(epochs([1.0 + 1 / (epoch + 1) for epoch in range(20_001)]))
    [line] = lines(text)
    assert 400 < len(line) <= 500 and "<circle" not in text
    assert text.count("<text") < 25 and len(text) < 20_000
    assert "loss 1</text>" in text


def test_names_of_curves_that_end_together_stand_apart() -> None:
    text = loss_chart.render(epochs([2.0, 1.0], [2.0, 1.0]))
    ends = [float(y) for y in re.findall(r'<text class="\w+" x="[^"]*" y="([^"]*)"', text)]
    assert len(ends) == 2 and abs(ends[0] - ends[1]) >= 12
