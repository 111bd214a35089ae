from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.errors import UsageError
from tfdist.multihost.hosts import Host
from tfdist.multihost.mpi.call_back import CallError
from tfdist.multihost.mpi.mpirun_command import MpiFamily, family_of, mpirun_command, parse_mpirun
from tfdist.multihost.mpi.rank_end import own_name
from tfdist.multihost.mpi.rank_link import RankLinks

HOSTS = (Host("h1"), Host("h2", (0,)))


def test_open_mpi_has_a_context_for_each_host() -> None:
    command = mpirun_command(("mpirun", "-x"), MpiFamily.OPEN_MPI, HOSTS, "/p")
    at = command.index(":")
    # What the user says of binding comes later, and counts.
    assert command[:4] == ["mpirun", "--bind-to", "none", "-x"]
    for part, name in ((command[4:at], "h1"), (command[at + 1 :], "h2")):
        assert part[:4] == ["-np", "1", "--host", name]
        assert part[4:8] == ["-x", "TFDIST_LAUNCH_AT", "-x", "TFDIST_LAUNCH_SECRET"]
        assert part[8:] == ["/p", "-P", "-m", "tfdist.multihost.mpi.rank_end", name]


def test_hydra_has_one_for_all_and_ranks_find_their_names() -> None:
    command = mpirun_command(("mpiexec", "-x"), MpiFamily.MPICH, HOSTS, "/p")
    hosts = ["-hosts", "h1,h2", "-ppn", "1", "-n", "2"]
    assert command == ["mpiexec", "-bind-to", "none", "-x", *hosts, *command[-5:]]
    assert mpirun_command(("mpiexec",), MpiFamily.INTEL_MPI, HOSTS, "/p") == ["mpiexec", *hosts, *command[-5:]]
    names = command[-1].split(",")
    assert [own_name(names, {"PMI_RANK": str(rank)}) for rank in (0, 1)] == ["h1", "h2"]
    assert own_name(["h1"], {}) == "h1"
    for rank in ("2", "", "x"):
        with pytest.raises(CallError, match="PMI_RANK expected a number below 2"):
            own_name(names, {"PMI_RANK": rank})


@pytest.mark.parametrize(
    ("says", "family"),
    [
        ("mpirun (Open MPI) 4.1.4", MpiFamily.OPEN_MPI),
        ("HYDRA build details:\n    Version: 4.0.2", MpiFamily.MPICH),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9", MpiFamily.INTEL_MPI),
        ("ls (GNU coreutils) 9.1", None),
    ],
)
def test_whose_it_is(tmp_path: Path, says: str, family: MpiFamily | None) -> None:
    program = tmp_path / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    if family is not None:
        assert family_of(str(program)) is family
        return
    with pytest.raises(UsageError, match="is no mpirun that tfdist knows"):
        family_of(str(program))


@pytest.mark.parametrize(("given", "expected"), [(None, "off"), ("on", "on")])
def test_intel_mpi_is_told_by_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    """Where the user has not told it otherwise."""
    monkeypatch.delenv("I_MPI_PIN", raising=False)
    if given is not None:
        monkeypatch.setenv("I_MPI_PIN", given)
    program, said = tmp_path / "mpirun", tmp_path / "said"
    program.write_text(f'#!/bin/sh\necho "$I_MPI_PIN" > {said}.new\nmv {said}.new {said}\n')
    program.chmod(0o755)
    with RankLinks((str(program),), MpiFamily.INTEL_MPI, HOSTS, "/p"):
        until(said.exists)
    assert said.read_text() == f"{expected}\n"


def test_what_is_no_command() -> None:
    with pytest.raises(UsageError, match="mpirun cannot be started: /none: No such file"):
        family_of("/none")
    for text in ("", "mpirun 'a"):
        with pytest.raises(UsageError, match="--mpirun expected a command"):
            parse_mpirun(text)
    assert parse_mpirun("mpirun -mca a 'b c'") == ("mpirun", "-mca", "a", "b c")
