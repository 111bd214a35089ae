"""The page of configs: its config is one, and the mistakes that it shows are said so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.helpers.pages import ROOT
from tfdist.config import load_config
from tfdist.config.json_schema import config_schema
from tfdist.training.config_objects.object_maker import METRIC, OPTIMIZER

PAGE = (ROOT / "docs" / "config.md").read_text()


def test_the_config_of_the_page_is_one(tmp_path: Path) -> None:
    (found,) = re.findall(r"```yaml\n(name: .*?)```", PAGE, re.DOTALL)
    (tmp_path / "digits.yaml").write_text(found)
    config = load_config(tmp_path / "digits.yaml")
    assert {"fit", "compile", "data"} < config_schema()["properties"].keys()
    assert len(config.fit.callbacks) == 2 and config.fit.class_weight == {0: 2.0, 3: 0.5}


def test_the_mistakes_of_the_page_are_said_so() -> None:
    shown = [line.strip().partition(": ")[2] for line in PAGE.splitlines() if line.startswith("      bad.yaml:")]
    assert shown[0] == "data.batch_size: expected an integer of 1 or more. Received: 0"
    assert shown[1] == str(OPTIMIZER.unknown("adamx", "compile.optimizer"))
    assert shown[2] == str(METRIC.unknown("accuraci", "compile.metrics.0"))
