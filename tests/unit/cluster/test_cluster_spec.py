from __future__ import annotations

import pytest

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.errors import ClusterError


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("host1:20000", "host1", 20000, "host1:20000"),
        (" Host-1.Example.org:1 ", "host-1.example.org", 1, "host-1.example.org:1"),  # names are case-insensitive
        ("10.0.0.1:65535", "10.0.0.1", 65535, "10.0.0.1:65535"),
        ("[FD00:0::1]:20000", "fd00::1", 20000, "[fd00::1]:20000"),  # canonical, so that lists compare
        ("[::ffff:10.0.0.1]:1", "10.0.0.1", 1, "10.0.0.1:1"),
        ("12:2222", "12", 2222, "12:2222"),  # some hosts have numbers as names
        ("my_host:2222", "my_host", 2222, "my_host:2222"),  # not a valid name, but a common one
    ],
)
def test_addresses_are_read_and_written(text: str, host: str, port: int, shown: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, shown)
    assert Address.parse(shown) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at least one worker"),
        ("  ", "at least one worker"),
        ("a:1,,b:2", "empty entry"),
        ("a:1,", "empty entry"),
        ("host1", "without a port"),
        ("host1:", "without a port"),
        (":20000", "without a host"),
        ("host1:http", "must be a number"),
        ("host1:-1", "must be a number"),
        ("host1:२०", "must be a number"),
        ("host1:0", "1 to 65535"),
        ("host1:65536", "1 to 65535"),
        ("::1:20000", "brackets"),
        ("[::1]", "without a port"),
        ("[::1:20000", "[address]:port"),
        ("[::1]20000", "[address]:port"),
        ("http://host1:20000", "must be a name"),
        ("user@host1:20000", "must be a name"),
        ("host 1:20000", "must be a name"),
        ("10.0.0.010:1", "must be a name, an IPv4 address"),  # octal for resolvers: 10.0.0.8
        ("127.1:1", "must be a name, an IPv4 address"),
        ("256.0.0.1:1", "must be a name, an IPv4 address"),
        ("[::ffff:10.0.0.1]:1,10.0.0.1:1", "Workers 0 and 1"),
        ("[::ffff:127.0.0.1]:1,host2:1", "another machine on every host"),
        ("0.0.0.0:20000", "every address"),
        ("[::]:20000", "every address"),
        ("a:1,b:1,A:1", "Workers 0 and 2"),
        ("[fd00::1]:1,[fd00:0::1]:1", "Workers 0 and 1"),
        ("127.0.0.1:1,127.0.0.2:1", "different ports"),  # one machine, and TensorFlow listens on every address
        ("localhost:1,[::1]:1", "different ports"),
        ("localhost:1,host2:1", "another machine on every host"),
        ("127.0.0.1:1,host2:1", "another machine on every host"),
        ("host2:1,127.9.9.9:1", "another machine on every host"),
        ("host2:1,[::1]:1", "another machine on every host"),
    ],
)
def test_bad_lists_are_refused(text: str, says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        Cluster.parse(text)
    assert says in str(raised.value)


def test_a_cluster_knows_its_workers() -> None:
    cluster = Cluster.parse("a:1, b:1,[::2]:3")
    assert len(cluster) == 3
    assert str(cluster) == "a:1,b:1,[::2]:3"


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(ClusterError, match=f"0 to 1. Received: index={index}"):
        Cluster.parse("a:1,b:1").check_index(index)


def test_lists_are_equal_in_any_spelling_but_not_in_any_order() -> None:
    assert Cluster.parse("A:1,b:2") == Cluster.parse("a:1, B:2")
    assert Cluster.parse("a:1,b:2") != Cluster.parse("b:2,a:1")


def test_a_cluster_may_have_only_loopback_addresses() -> None:
    assert len(Cluster.parse("127.0.0.1:1,127.0.0.2:2,localhost:3,[::1]:4")) == 4


def test_a_port_of_too_many_digits_is_refused() -> None:
    with pytest.raises(ClusterError, match="number from 1 to 65535"):
        Address.parse("a:" + "1" * 5000)
