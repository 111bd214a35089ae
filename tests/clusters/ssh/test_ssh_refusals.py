"""Hosts that `tfdist launch` cannot use: one line each, with the host, the cause and the remedy; nothing starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters.ssh.launches import Launches, MakeHosts


def refused(
    launches: Launches, code: int, *expected: str, options: tuple[object, ...] = (), hosts: str = "h1,h2"
) -> None:
    """Launches, and finds every text on stderr; no worker has started."""
    launch = launches.launch(*options, "train.py", "*:listen", hosts=hosts)
    assert launch.end() == code, launch.err
    assert launch.err.startswith("error: ") and launch.err.count("\n") == 1, launch.err
    for text in (*expected, "Nothing was started."):
        assert text in launch.err, launch.err
    assert not (launches.folder / "runs").exists()


def script(launches: Launches, name: str, *lines: str) -> Path:
    path = launches.folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def stop_server(launches: Launches) -> None:
    launches.servers.servers["h2"].kill()
    launches.servers.servers["h2"].wait()


def cut_link(launches: Launches) -> None:
    launches.servers.hosts["h2"].set_link("down")


def refuse_key(launches: Launches) -> None:
    config = launches.servers.config
    config.write_text(config.read_text().replace(str(launches.servers.folder / "client"), "/none"))


def change_host_key(launches: Launches) -> None:
    other = (launches.servers.folder / "client.pub").read_text().split()[:2]
    own = (launches.servers.folder / "server.pub").read_text().split()[:2]
    known = launches.servers.known_hosts
    lines = known.read_text().splitlines()
    known.write_text("\n".join([lines[0], lines[1].replace(own[1], other[1]), ""]))


def forget_host_key(launches: Launches) -> None:
    known = launches.servers.known_hosts
    known.write_text(known.read_text().splitlines()[0] + "\n")


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (stop_server, ("h2 refuses the connection.", "Start an ssh server there")),
        (change_host_key, ("h2 has another host key than before", "ssh-keygen -R h2")),
        (forget_host_key, ("h2 has a host key that is not known", "Connect once by hand and compare it: ssh ", " h2.")),
    ],
)
def test_one_host_that_is_out_of_reach(
    ssh_hosts: MakeHosts, break_it: Callable[[Launches], None], expected: tuple[str, ...]
) -> None:
    launches = ssh_hosts(2)
    break_it(launches)
    refused(launches, 3, *expected)


def test_a_host_that_does_not_answer(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    cut_link(launches)
    # Without an answer to who has the address, the kernel gives up after three seconds: no route. The other host has
    # ten times as long to answer, as it may need on a busy machine.
    refused(launches, 3, "error: h2 ", "Check that it runs", options=("--connect-timeout", 30))


def test_a_key_that_is_refused_is_said_once_for_all_hosts(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    refuse_key(launches)
    launch = launches.launch("train.py")
    assert launch.end() == 3
    assert launch.err == (
        "error: h1, h2: refuses your key. No password is asked for. Put your key there (ssh-copy-id h1), or name it in "
        "ssh's config (IdentityFile). Nothing was started.\n"
    )


def test_64_names_that_do_not_resolve(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(1)
    names = ",".join(f"none-{number}.invalid" for number in range(64))
    expected = "none-7.invalid and 56 more: has a name that does not resolve. Correct it"
    refused(launches, 3, expected, hosts=f"h1,{names}")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--python", "/none/python"), ("h1, h2: has no /none/python.", "Name its Python with --python PATH")),
        (("--cwd", "/none"), ("h1, h2: cannot work in /none: No such file or directory.", "with --cwd DIR")),
        (("none.py",), ("h1, h2: cannot read none.py in ", "Copy it there")),
        (("none.yaml",), ("h1, h2: cannot read none.yaml in ",)),
        (("-m", "none.module"), ("h1, h2: has no module none in ",)),
    ],
)
def test_what_lacks_on_the_hosts(ssh_hosts: MakeHosts, options: tuple[object, ...], expected: tuple[str, ...]) -> None:
    launches = ssh_hosts(2)
    if options[0] == "none.yaml":
        launch = launches.launch(*options)
        assert launch.end() == 2
        assert all(text in launch.err for text in expected), launch.err
    else:
        refused(launches, 2, *expected, options=options)


def test_another_version_of_tfdist(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    (launches.folder / "other").mkdir()
    changes = "import tfdist.versions\ntfdist.versions.VERSION = '9.9.9'\n"
    (launches.folder / "other/sitecustomize.py").write_text(changes)
    path = f"export PYTHONPATH={launches.folder}/other:$PYTHONPATH"
    python = script(launches, "python", path, f'exec {sys.executable} "$@"')
    refused(launches, 2, "h1, h2: has tfdist 9.9.9 (in ", "as here", options=("--python", python))


def test_a_python_without_tfdist(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    python = script(launches, "python", f'exec {sys.executable} -I -S "$@"')
    refused(launches, 2, f"h1, h2: has no tfdist in {python}.", "-m pip install tfdist", options=("--python", python))


def test_one_host_under_two_names(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(2)
    config = launches.servers.config
    config.write_text(config.read_text().replace("Host h2\n", "Host h2 other\n"))
    refused(launches, 2, "h2 and other are the same host, ", "--workers-per-host N", hosts="h1,h2,other")


def test_a_login_script_that_prints_does_no_harm(ssh_hosts: MakeHosts) -> None:
    """On many hosts `.bashrc` greets, also those who come without a terminal."""
    launches = ssh_hosts(1)
    python = script(launches, "python", "echo welcome", "echo to h1 >&2", f'exec {sys.executable} "$@"')
    launch = launches.launch("--python", python, "--show", "all", "train.py", "0:print:hello")
    assert launch.end() == 0, launch.err
    assert "h1: hello\n" in launch.out


def test_ssh_itself_is_missing(ssh_hosts: MakeHosts) -> None:
    launches = ssh_hosts(1)
    launch = launches.start("launch", "--ssh", "/none/ssh -v", "--hosts", "h1", "train.py")
    assert launch.end() == 2
    assert "error: ssh cannot be started: /none/ssh: No such file or directory." in launch.err
