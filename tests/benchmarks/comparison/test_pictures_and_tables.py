from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from benchmarks.comparison.bar_chart import Panel, bar_chart
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.spread import Spread

SVG = "{http://www.w3.org/2000/svg}"


def test_a_table_lines_up() -> None:
    assert markdown_table([["a", "b|c"], ["long", "1"]], "lr") == [
        *("| a    | b\\|c |", "| ---- | ---: |", "| long |    1 |")
    ]


def test_bars_are_as_high_as_their_values() -> None:
    groups = {
        "mlp": {"a<b": Spread(2.0, 1.0, 3.0), "c": Spread(1.0, 1.0, 1.0)},
        "cnn": {"a<b": None, "c": Spread(0, 0, 0)},
    }
    tree = ElementTree.fromstring(bar_chart("Steps & time", [Panel("one", groups, baseline=1.0)]))
    bars = {bar.find(f"{SVG}title").text: bar for bar in tree.iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None}
    heights = {title: float(bar.get("height")) for title, bar in bars.items()}
    assert set(heights) == {"a<b: 2.00 (1.00 to 3.00)", "c: 1.00 (1.00 to 1.00)", "c: 0 (0 to 0)"}
    assert heights["a<b: 2.00 (1.00 to 3.00)"] == 2 * heights["c: 1.00 (1.00 to 1.00)"] > 0
    assert heights["c: 0 (0 to 0)"] == 0
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    assert "–" in texts and "Steps & time" in texts and "mlp" in texts
    width, height = map(int, tree.get("viewBox").split()[2:])
    for bar in bars.values():
        assert 0 <= float(bar.get("x")) < width and 0 <= float(bar.get("y")) <= height
    dashed = [path for path in tree.iter(f"{SVG}path") if path.get("stroke-dasharray")]
    assert [path.get("d").split(",")[1].split()[0] for path in dashed] == [bars["c: 1.00 (1.00 to 1.00)"].get("y")]


def test_a_picture_of_nothing_but_failures_is_one() -> None:
    tree = ElementTree.fromstring(bar_chart("t", [Panel("one", {"mlp": {"a": None}})]))
    assert "–" in [text.text for text in tree.iter(f"{SVG}text")]
