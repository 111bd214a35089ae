from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.multihost.launching.protocol import HostSpec
from tfdist.multihost.remote import host_checks
from tfdist.multihost.remote.host_checks import (
    check_slots,
    check_target,
    check_version,
    enter_working_directory,
    find_facts,
    reachable_address,
    take_ports,
)
from tfdist.net.port_reservation import PortReservation
from tfdist.versions import VERSION


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostSpec:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return HostSpec(VERSION, "n", str(tmp_path), "script", "train.py", ())


def test_a_host_that_can(spec: HostSpec) -> None:
    with PortReservation() as lease:
        facts = find_facts(dataclasses.replace(spec, workers=3), lease, "127.0.0.1")
        assert len(set(facts.ports)) == 3 and all(20_000 <= port < 32_000 for port in facts.ports)
        # They are held until the launcher takes them.
        with PortReservation() as other:
            assert not set(take_ports(3, other)) & set(facts.ports)
    assert facts.address is None


def test_what_is_in_the_way(spec: HostSpec, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"has tfdist {VERSION} .*Expected 0.0.0, as here"):
        check_version(dataclasses.replace(spec, version="0.0.0"))
    with pytest.raises(UsageError, match="cannot work in .*/none: No such file"):
        enter_working_directory(dataclasses.replace(spec, cwd=str(tmp_path / "none")))
    with pytest.raises(UsageError, match="cannot work in .*/train.py: Not a directory"):
        enter_working_directory(dataclasses.replace(spec, cwd=str(tmp_path / "train.py")))
    with pytest.raises(UsageError, match="cannot read none.py in"):
        check_target(dataclasses.replace(spec, target="none.py"))


@pytest.mark.parametrize(("module", "there"), [("package.inner", True), ("json.tool", True), ("none.inner", False)])
def test_modules(spec: HostSpec, tmp_path: Path, module: str, there: bool) -> None:
    """In the working directory, or installed; what is inside of a package is not run to be found."""
    (tmp_path / "package").mkdir()
    asked = dataclasses.replace(spec, target_kind="module", target=module)
    if there:
        check_target(asked)
        return
    with pytest.raises(UsageError, match="has no module none in"):
        check_target(asked)


def test_slots_are_gpus_where_there_are_any(spec: HostSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks, "_DEVICES", tmp_path)
    asked = dataclasses.replace(spec, slots=(0, 2))
    check_slots(asked, host_checks.gpu_count())
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia0x"):
        (tmp_path / name).touch()
    assert host_checks.gpu_count() == 2
    with pytest.raises(UsageError, match=r"has 2 GPU\(s\). Expected slot 2 to be one of them"):
        check_slots(asked, 2)
    check_slots(asked, 3)
    check_slots(spec, 2)


@pytest.mark.parametrize(
    ("reached", "expected"),
    [("10.0.0.1", "10.0.0.1"), ("fd00::1", "fd00::1"), (None, None), ("127.0.1.1", None), ("8.8.8.8", None)],
)
def test_the_address_of_the_connection_counts_where_it_is_ours(reached: str | None, expected: str | None) -> None:
    own = ("127.0.0.1", "127.0.1.1", "10.0.0.1", "fd00::1")
    assert reachable_address(reached, own) == expected
