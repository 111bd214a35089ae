from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.multihost.hosts import (
    MOST_BYTES,
    Host,
    choose_hosts,
    exclude,
    include,
    parse_filter,
    parse_hostfile,
    parse_hosts,
    read_hostfile,
)

FOUR = (0, 1, 2, 3)
HOSTS = (Host("h1", FOUR), Host("h2", FOUR), Host("h3", (0,)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h1 slots=4\nh2 slots=4\nh3 slots=1\n", HOSTS),
        ("# all\n\n  h1\tslots=2   # two\r\nh2\n", (Host("h1", (0, 1)), Host("h2"))),
        ("h1\t slots=2\nh2 \tslots=1", (Host("h1", (0, 1)), Host("h2", (0,)))),
        ("10.0.0.1 slots = 1", (Host("10.0.0.1", (0,)),)),  # as Open MPI reads it
        ("worker-0.example_1", (Host("worker-0.example_1"),)),
    ],
)
def test_a_hostfile(text: str, expected: tuple[Host, ...]) -> None:
    assert parse_hostfile(text, "hosts") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hostfile hosts names no host"),
        ("# none\n\n", "hostfile hosts names no host"),
        ("h1\nh2 slots=0", "hosts, line 2: slots must be 1 to 1024. Received: slots=0"),
        ("h1 slots=-1", "hosts, line 1: Expected a name, and behind it at most slots=N"),
        ("h1 slots=2000", "hosts, line 1: slots must be 1 to 1024"),
        ("h1 gpus=2", "hosts, line 1: .*'h1 gpus=2'"),
        ("h1\n\nh1 slots=2", "hosts, line 3: h1 stands on line 1 already"),
        ("-oProxyCommand=x", "hosts, line 1: A host must be a name"),
        ("me@h1 slots=1", "hosts, line 1: A host must be a name .*ssh's config.* mpirun.*/etc/hosts"),
        ("fd00::1", "hosts, line 1: A host must be a name"),
        ("h1:2", "hosts, line 1: A host must be a name"),
    ],
)
def test_a_bad_hostfile_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_hostfile(text, "hosts")


def test_a_hostfile_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="hostfile .*/none cannot be read: No such file or directory.*Nothing was"):
        read_hostfile(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_hostfile(str(tmp_path))
    (tmp_path / "much").write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(UsageError, match="more than 4 MiB"):
        read_hostfile(str(tmp_path / "much"))
    (tmp_path / "bytes").write_bytes(b"h\xff1")
    with pytest.raises(UsageError, match="line 1: A host must be a name"):
        read_hostfile(str(tmp_path / "bytes"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h1", {"h1": ()}),
        ("h1:0,1@h2", {"h1": (0, 1), "h2": ()}),
        (" h1 : 1 @ h2 ", {"h1": (1,), "h2": ()}),
        ("h1:2,2", {"h1": (2,)}),
        ("", None),
        ("h1@", None),
        ("h1:", None),
        ("h1:a", None),
        ("h1:-1", None),
        ("h1:99999", None),
        (":0", None),
    ],
)
def test_the_grammar_of_filters(text: str, expected: dict[str, tuple[int, ...]] | None) -> None:
    if expected is not None:
        assert parse_filter(text, "--include") == expected
        return
    with pytest.raises(UsageError, match="--include expected hosts between @"):
        parse_filter(text, "--include")


@pytest.mark.parametrize("text", ["h1@h1:0", "h1:0@h1", "h1:1@h1:0", "h2@h1@h1"])
def test_a_filter_that_names_a_host_twice_is_refused(text: str) -> None:
    """Whether all of its slots are meant or some of them cannot be known."""
    with pytest.raises(UsageError, match='--exclude names h1 twice. Expected each host once, .* "h1:0,1"'):
        parse_filter(text, "--exclude")


def test_hosts_that_are_included() -> None:
    """In the order of the file, whatever that of the filter."""
    assert include(HOSTS, "h3@h1:2,0", "hosts") == (Host("h1", (0, 2)), Host("h3", (0,)))
    assert include((Host("h1"), Host("h2")), "h2:1", "--hosts") == (Host("h2", (1,)),)


def test_hosts_that_are_excluded() -> None:
    assert exclude(HOSTS, "h1:0,3@h2", "hosts") == (Host("h1", (1, 2)), Host("h3", (0,)))
    # All slots of a host are the host.
    assert exclude(HOSTS, "h3:0", "hosts") == HOSTS[:2]


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (include, "h4", "--include names a host that is not in hosts: h4. Expected one of h1, h2, h3"),
        (include, "h1:4", r"slot 4 of h1, which has slots=4 in hosts. Expected a number from 0 to 3"),
        (exclude, "h3:1", "--exclude names slot 1 of h3"),
        (exclude, "h1@h2@h3", "--exclude leaves no host of hosts"),
    ],
)
def test_filters_that_do_not_fit_are_refused(option: object, text: str, message: str) -> None:
    assert callable(option)
    with pytest.raises(UsageError, match=message):
        option(HOSTS, text, "hosts")


def test_slots_of_a_host_that_does_not_say_how_many_it_has_cannot_be_excluded() -> None:
    with pytest.raises(UsageError, match="h1 slots=8"):
        exclude((Host("h1"),), "h1:0", "--hosts")


def test_a_list_of_hosts() -> None:
    assert parse_hosts("h1, h2") == (Host("h1"), Host("h2"))
    with pytest.raises(UsageError, match="--hosts names a host twice: h1"):
        parse_hosts("h1,h2,h1")
    with pytest.raises(UsageError, match="--hosts expected names between commas"):
        parse_hosts("h1,,h2")


def test_hosts_are_given_in_one_way(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("h1 slots=2\nh2 slots=2\n")
    assert choose_hosts(str(file), None, "h2:1", None) == (Host("h2", (1,)),)
    assert choose_hosts(str(file), None, None, "h2") == (Host("h1", (0, 1)),)
    assert choose_hosts(None, "h1", None, None) == (Host("h1"),)
    for hostfile, hosts in ((None, None), (str(file), "h1")):
        with pytest.raises(UsageError, match="--hostfile FILE or by --hosts h1,h2, one of the two"):
            choose_hosts(hostfile, hosts, None, None)
    with pytest.raises(UsageError, match="--include says which hosts to use, and --exclude which not"):
        choose_hosts(str(file), None, "h1", "h2")
