from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.multihost.ssh import explain_connecting, explain_loss, parse_ssh, ssh_command

PYTHON = "/opt/my env/bin/python"


def test_the_command() -> None:
    command = ssh_command(("ssh", "-F", "my config"), "h1", PYTHON, 7)
    assert command[:3] == ["ssh", "-F", "my config"]
    assert {"-oBatchMode=yes", "-oConnectTimeout=7"} <= set(command)
    assert command[-3:] == ["--", "h1", "exec '/opt/my env/bin/python' -P -m tfdist.multihost.remote.remote_end"]


def test_the_option_is_words_as_a_shell_has_them() -> None:
    assert parse_ssh("ssh -F 'a b'") == ("ssh", "-F", "a b")
    for text in ("", "ssh 'a"):
        with pytest.raises(UsageError, match="--ssh expected a command"):
            parse_ssh(text)


@pytest.mark.parametrize(
    ("code", "said", "what", "remedy", "exit_code"),
    [
        (255, "ssh: connect to host h1 port 22: Connection refused\r\n", "refuses the connection", "ssh server", 3),
        (255, "ssh: Could not resolve hostname h1: Name or service not known", "does not resolve", "HostName", 3),
        (255, "ssh: connect to host h1 port 22: No route to host", "No route to host", "the network", 3),
        (255, "ssh: connect to host h1 port 22: Connection timed out", "does not answer", "--connect-timeout", 3),
        (255, "Connection timed out during banner exchange", "does not answer", "--connect-timeout", 3),
        (255, "root@h1: Permission denied (publickey).", "refuses your key", "ssh-copy-id h1", 3),
        (
            255,
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "another host key",
            "ssh-keygen -R h1",
            3,
        ),
        (255, "No ED25519 host key is known.\nHost key verification failed.", "not known here", "ssh h1", 3),
        (255, "kex_exchange_identification: Connection closed by remote", "closed the connection", "MaxStartups", 3),
        (255, "/c: line 3: Bad configuration option: a\n/c: terminating, 1 bad", "its config (/c: line 3", "--ssh", 3),
        (255, "Can't open user config file /none: No such file or directory", "its config (Can't open", "--ssh", 3),
        (255, "something new", "cannot be reached by ssh: something new", "ssh h1", 3),
        (255, "", "it said nothing", "ssh h1", 3),
        (127, f"bash: line 1: {PYTHON}: No such file or directory", f"has no {PYTHON}", "--python PATH", 2),
        (126, f"bash: line 1: {PYTHON}: Permission denied", f"has no {PYTHON}", "--python PATH", 2),
        (1, f"{PYTHON}: No module named tfdist", "has no tfdist", "pip install tfdist", 2),
        (1, "Error while finding module (ModuleNotFoundError: No module named 'tfdist')", "has no tfdist", "pip", 2),
        (1, f"{PYTHON}: No module named tfdist.multihost", "cannot be launched", "same version", 2),
        (2, "unknown option -P\nusage: python [option]", "older than 3.11", "--python PATH", 2),
        (2, "Unknown option: -P\nusage: python [option]", "older than 3.11", "--python PATH", 2),
        (1, "Traceback\nImportError: libz.so", "exit code 1 before it answered: ImportError: libz.so", "by hand", 3),
        (None, "", "has not answered in time", "--version", 3),
    ],
)
def test_why_a_host_has_not_answered(code: int | None, said: str, what: str, remedy: str, exit_code: int) -> None:
    problem = explain_connecting("h1", code, said, PYTHON)
    assert what in problem.what
    assert remedy in problem.remedy
    assert problem.code == exit_code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, ""),
        (255, ""),
        (1, "Traceback"),
        (255, "Host key verification failed."),
        (255, "REMOTE HOST IDENTIFICATION HAS CHANGED"),
    ],
)
def test_what_to_try_by_hand_is_called_as_the_user_does(code: int | None, said: str) -> None:
    problem = explain_connecting("h1", code, said, PYTHON, ("ssh", "-F", "my {config}"))
    assert ": ssh -F 'my {config}' h1" in problem.remedy


@pytest.mark.parametrize(
    ("code", "said", "what"),
    [
        (-9, "", "was lost: its ssh was killed by signal 9"),
        (255, "Timeout, server h1 not responding.\r\n", "exit code 255: Timeout, server h1 not responding"),
        (0, "", "was lost: its ssh ended with exit code 0"),
    ],
)
def test_why_a_host_was_lost(code: int, said: str, what: str) -> None:
    assert what in explain_loss(code, said).what
