"""Checkpoints that somebody else has written: nothing outside of them is read, and no more memory taken than bytes."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.made_checkpoints import folder_of, run_with
from tfdist.checkpoint.checkpoint_contents import contents_fault, load_arrays
from tfdist.checkpoint.checkpoint_files import MARKER, REPLICAS, SUMMARY, WEIGHTS, StoredCheckpoint, stored
from tfdist.checkpoint.checkpoint_pruner import info_of
from tfdist.cli.main import main
from tfdist.rundir import RunDir

SECONDS = 60


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """An alarm ends what would read for ever; what would take all memory fails."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), limits[1]))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_with(tmp_path / "a", 10, 20)


def checkpoints(verb: str, run: RunDir, *options: str) -> Result:
    return CliRunner().invoke(main, ["checkpoints", verb, str(run), *options])


def latest(run: RunDir) -> StoredCheckpoint:
    return stored(run.checkpoints_dir)[0]


def replace(run: RunDir, name: str, content: bytes) -> None:
    """Another content of a file of the latest checkpoint, with a marker that says so."""
    folder = latest(run).path
    (folder / name).unlink()
    (folder / name).write_bytes(content)
    marker = json.loads((folder / MARKER).read_bytes())
    marker["files"][name] = {"bytes": len(content), "crc32": zlib.crc32(content)}
    (folder / MARKER).write_text(json.dumps(marker))


@pytest.mark.parametrize("name", ["/dev/zero", "../../secret", "..", "", "a/b", "nul\0"])
def test_a_marker_names_files_beside_it_alone(name: str, run: RunDir) -> None:
    (run.path.parent / "secret").write_bytes(b"secret")
    digest = {"bytes": 6, "crc32": zlib.crc32(b"secret")}
    (latest(run).path / MARKER).write_text(json.dumps({"format": 2, "files": {name: digest}}))
    assert latest(run).fault() == f"{MARKER} is damaged"
    result = checkpoints("verify", run)
    assert result.exit_code == 5
    assert f"step-00000020: {MARKER} is damaged" in result.stdout and "step-00000010: whole" in result.stdout


def link(file: Path) -> None:
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", [MARKER, WEIGHTS, REPLICAS, SUMMARY])
@pytest.mark.parametrize("become", [link, pipe, device])
def test_regular_files_alone_are_opened(become: Callable[[Path], None], name: str, run: RunDir) -> None:
    become(latest(run).path / name)
    assert "regular file" in str(latest(run).fault())
    for verb in ("ls", "verify"):
        result = checkpoints(verb, run)
        assert "regular file" in result.stdout and "step-00000010" in result.stdout
    result = checkpoints("inspect", run, "--step", "20")
    assert result.exit_code == 5 and "regular file" in result.stderr
    assert checkpoints("inspect", run).exit_code == 0


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"epoch": 1' + b"0" * 5000 + b"}",
        b"[1]",
        b"\xff",
        b" " * (33 << 20),
        b'{"epoch": 1e400, "total": -1}',
    ],
    ids=["deep list", "deep object", "huge number", "list", "no text", "large", "infinite"],
)
def test_a_summary_that_is_none(content: bytes, run: RunDir) -> None:
    replace(run, SUMMARY, content)
    assert contents_fault(latest(run)) is not None
    assert info_of(latest(run)).step == 20
    for verb in ("ls", "inspect", "verify", "prune"):
        result = checkpoints(verb, run, *(["--keep", "1"] if verb == "prune" else []))
        assert result.exit_code == 0, result.output


FIT = {
    "number": 1, "mark": "b", "after": "", "first_epoch": 0, "stopped": False, "data": {"kind": "arrays"},
    "optimizers": [4], "callbacks": {}, "csv_logs": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("record", "is_usable"),
    [
        ({}, True),
        ({"history": {"loss": [1.0, None]}, "lines": ["{}\n"]}, True),
        ({"fit": FIT}, True),
        ({"history": {"loss": 1.0}}, False),
        ({"history": [1.0]}, False),
        ({"history": {"loss": ["1"]}}, False),
        ({"lines": [1]}, False),
        ({"fit": []}, False),
        *(({"fit": {**FIT, name: None}}, False) for name in ("mark", "after", "first_epoch", "data", "callbacks")),
    ],
)
def test_a_record_is_one_that_can_be_restored(record: dict[str, Any], is_usable: bool, run: RunDir) -> None:
    """Else the one before it is taken, as for every other damage."""
    summary = json.loads((folder_of(run, 20) / SUMMARY).read_bytes())
    replace(run, SUMMARY, json.dumps({**summary, "record": record}).encode())
    assert (contents_fault(latest(run)) is None) == is_usable


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)
KEYS = ["epoch", "step", "total", "time", "logs", "metrics", "record", "versions", "variables", "config", "seed"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed=st.dictionaries(st.sampled_from(KEYS), json_values), history=json_values)
def test_any_values_in_a_summary(changed: dict[str, Any], history: Any, run: RunDir) -> None:
    summary = json.loads((folder_of(run, 10) / SUMMARY).read_bytes())
    summary["record"] = {"history": history}
    replace(run, SUMMARY, json.dumps(summary | changed).encode())
    contents_fault(latest(run))
    info_of(latest(run))
    for verb in ("ls", "inspect"):
        for options in ([], ["--json"]):
            result = checkpoints(verb, run, *options)
            assert result.exit_code in (0, 5) and not isinstance(result.exception, Exception), result.exception


def zipped(method: int, **members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def member_of(array: np.ndarray, **changed: Any) -> bytes:
    """An array in NumPy's format, with another header."""
    content = io.BytesIO()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | changed
    np.lib.format.write_array_header_1_0(content, header)
    return content.getvalue() + array.tobytes()


ARRAY = np.arange(4)
HOSTILE_ARRAYS = {
    "bomb": zipped(zipfile.ZIP_DEFLATED, a=member_of(ARRAY) + bytes(1 << 26)),
    "giant": zipped(zipfile.ZIP_STORED, a=member_of(ARRAY, shape=(1 << 60,))),
    "pickle": zipped(zipfile.ZIP_STORED, a=member_of(np.zeros(4, np.int64), descr="|O")),
    "no array": zipped(zipfile.ZIP_STORED, a=b"no array"),
    "no archive": b"no archive",
    "version": zipped(zipfile.ZIP_STORED, a=b"\x93NUMPY\x09\x00" + b"x" * 99),
}


@pytest.mark.parametrize("kind", HOSTILE_ARRAYS)
def test_arrays_take_no_more_memory_than_their_file(kind: str, run: RunDir) -> None:
    replace(run, REPLICAS, HOSTILE_ARRAYS[kind])
    assert latest(run).fault() is None
    assert REPLICAS in str(contents_fault(latest(run)))
    with pytest.raises(ValueError, match=REPLICAS):
        load_arrays(latest(run).path / REPLICAS)
    result = checkpoints("inspect", run)
    assert result.exit_code == 5 and REPLICAS in result.stderr


def external(file: h5py.File, secret: Path) -> None:
    file.create_dataset("layers/dense/vars/1", (6,), "u1", external=[(str(secret), 0, 6)])


def external_link(file: h5py.File, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["kernel"] = [1.0]
    file["layers/dense/vars/1"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "kernel")


def soft_link(file: h5py.File, secret: Path) -> None:
    file["layers/dense/vars/1"] = h5py.SoftLink("/layers/dense/vars/0")


def virtual(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "kernel", (4,))
    file.create_virtual_dataset("layers/dense/vars/1", layout)


def giant(file: h5py.File, secret: Path) -> None:
    file.create_dataset("layers/dense/vars/1", (1 << 40,), "f4", chunks=(1 << 10,))


def compressed(file: h5py.File, secret: Path) -> None:
    file.create_dataset("layers/dense/vars/1", data=np.zeros(1 << 20), compression="gzip")


@pytest.mark.parametrize("change", [external, external_link, soft_link, virtual, giant, compressed])
def test_weights_lie_in_their_file(change: Callable[[h5py.File, Path], None], run: RunDir, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    content = io.BytesIO((latest(run).path / WEIGHTS).read_bytes())
    with h5py.File(content, "r+") as file:
        change(file, secret)
    replace(run, WEIGHTS, content.getvalue())
    assert latest(run).fault() is None
    assert "vars/1" in str(contents_fault(latest(run)))
    for verb, options in (("inspect", []), ("export", [str(tmp_path / "a.weights.h5")])):
        result = checkpoints(verb, run, *options)
        assert result.exit_code == 5 and "vars/1" in result.stderr


def test_what_tfdist_wrote_is_sound(run: RunDir) -> None:
    assert contents_fault(latest(run)) is None
    assert load_arrays(latest(run).path / REPLICAS)["seeds"].tolist() == [0, 1, 2, 3]


def test_one_that_is_out_of_reach_stops_no_other(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another user's, which root reads all the same."""
    opened = os.open

    def refuse(path: Any, *options: Any, **named: Any) -> int:
        if "step-00000020" in str(path):
            raise PermissionError(13, "Permission denied")
        return opened(path, *options, **named)

    monkeypatch.setattr(os, "open", refuse)
    result = checkpoints("ls", run)
    assert result.exit_code == 0
    assert "no: " in result.stdout and "Permission denied" in result.stdout and "step-00000010" in result.stdout
    result = checkpoints("verify", run)
    assert "step-00000010: whole" in result.stdout and "Permission denied" in result.stdout and result.exit_code == 5
