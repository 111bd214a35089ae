from __future__ import annotations

import pytest

from tfdist.cluster.environment_variables import HIDDEN, run_variables


def test_only_variables_that_affect_a_run_are_shown() -> None:
    environ = {"TF_CONFIG": "{}", "HOME": "/root", "NCCL_DEBUG": "INFO", "TF_CLI_CONFIG_FILE": "x", "KERAS_BACKEND": ""}
    assert run_variables(environ) == {"KERAS_BACKEND": "", "NCCL_DEBUG": "INFO", "TF_CONFIG": "{}"}


def test_the_value_of_a_secret_is_hidden() -> None:
    assert run_variables({"TFDIST_TOKEN": "hush"}) == {"TFDIST_TOKEN": HIDDEN}


def test_this_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    assert run_variables()["NCCL_SOCKET_IFNAME"] == "eth7"
