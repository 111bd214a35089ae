"""`tfdist plan --memory` of a config and of a model that cannot be made, as a user meets them."""

from __future__ import annotations

import json

from tests.workers.cli_process import ROOT, tfdist

CONFIG = ROOT / "configs" / "digits.yaml"


def test_a_model_larger_than_the_device_and_the_mode_that_fits() -> None:
    done = tfdist("plan", CONFIG, "--nproc", 4, "--memory", "--json", "--set", "model.args.hidden=[4096,4096]")
    assert (done.returncode, done.stderr) == (0, "")
    modes = json.loads(done.stdout)["memory"]["modes"]
    weights = 64 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10
    assert modes["none"]["parameters"] == modes["zero2"]["parameters"] == 4 * weights
    assert modes["none"]["optimizer"] == 8 * weights
    assert 0 <= modes["zero1"]["optimizer"] - 2 * weights < 8 * 4096
    assert modes["none"]["activations"] > 0


def test_a_mistake_in_the_config_is_told_as_a_run_tells_it() -> None:
    done = tfdist("plan", CONFIG, "--memory", "--set", "model.args.hiden=[8]")
    assert done.returncode == 2
    assert done.stderr.startswith("error: model.args.hiden: "), done.stderr
