""""""

from __future__ import annotations

import pytest

from tfdist.cluster.environment_variables import (
    HIDDEN,
    chosen_variables,
    environment_with,
    run_variables,
    ssh_server_address,
)
from tfdist.errors import UsageError


def test_only_variables_that_affect_a_run_are_shown() -> None:
    environ = {"TF_CONFIG": "{}", "HOME": "/root", "NCCL_DEBUG": "INFO", "TF_CLI_CONFIG_FILE": "x", "KERAS_BACKEND": ""}
    assert run_variables(environ) == {"KERAS_BACKEND": "", "NCCL_DEBUG": "INFO", "TF_CONFIG": "{}"}


def test_the_value_of_a_secret_is_hidden() -> None:
    assert run_variables({"TFDIST_TOKEN": "hush"}) == {"TFDIST_TOKEN": HIDDEN}


def test_this_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    assert run_variables()["NCCL_SOCKET_IFNAME"] == "eth7"


def test_chosen_variables() -> None:
    environ = {"A": "1", "B": "x,y", "C": ""}
    assert chosen_variables(["A, B", "C"], environ) == environ
    assert chosen_variables([], environ) == {}
    with pytest.raises(UsageError, match="--env names a variable that is not set here: D"):
        chosen_variables(["A,D"], environ)
    for name in ("A=1", "", "1A", "A-B"):
        with pytest.raises(UsageError, match="--env expected names of variables"):
            chosen_variables([name], environ)


def test_more_variables() -> None:
    assert environment_with({"A": "2"}, {"A": "1", "B": "3"}) == {"A": "2", "B": "3"}


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("10.0.0.9 5000 10.0.0.1 22", "10.0.0.1"),
        ("fe80::9%eth0 5000 fe80::1%eth0 22", "fe80::1"),
        ("UNKNOWN 65535 UNKNOWN 65535", None),
        ("", None),
        ("10.0.0.9 5000", None),
    ],
)
def test_where_ssh_reached_this_host(said: str, address: str | None) -> None:
    assert ssh_server_address({"SSH_CONNECTION": said}) == address
    assert ssh_server_address({}) is None
