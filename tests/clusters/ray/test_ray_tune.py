"""The example that searches by Ray Tune, on a real Ray cluster."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.clusters.ray.ray_cluster import RayCluster

pytestmark = pytest.mark.bound(900)
"""The first one starts the cluster, and one after a lost node waits for the next."""

EXAMPLE = Path(__file__).parents[3] / "examples/tuning/ray_tune.py"


def test_a_search_reports_each_trials_epochs_and_finds_the_best(cluster: RayCluster) -> None:
    storage = cluster.folder / "search"
    done = cluster.run(
        sys.executable, str(EXAMPLE), "--trials", "2", "--epochs", "2", "--storage", str(storage), seconds=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    best = re.search(r"best of 2: units (\d+), learning rate 0\.\d+, accuracy (0\.\d+)", done.stdout)
    assert best is not None, done.stdout
    reported = [
        [json.loads(line)["val_accuracy"] for line in file.read_text().splitlines()]
        for file in sorted(storage.glob("search/*/result.json"))
    ]
    assert [len(values) for values in reported] == [2, 2]
    assert float(best[2]) == max(round(values[-1], 4) for values in reported)
