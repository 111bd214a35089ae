from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.checkpoint_store import CheckpointStore, open_store
from tfdist.checkpoint.generation_claim import CLAIMS, by_generation, claim_on
from tfdist.errors import RunDirError


def test_a_later_start_shuts_out_an_earlier_one(tmp_path: Path) -> None:
    first, second = claim_on(tmp_path, "a"), claim_on(tmp_path, "b")
    assert first.take() == 1
    first.check()
    assert second.take() == 2
    second.check()
    with pytest.raises(RunDirError, match=r"started again \(2 in .*, and this start is 1\)"):
        first.check()


def test_a_start_takes_one_number(tmp_path: Path) -> None:
    """A script may open the same folder several times."""
    first, again = claim_on(tmp_path, "a"), claim_on(tmp_path, "a")
    assert [first.take(), again.take()] == [1, 1]
    first.check()
    assert [file.name for file in (tmp_path / CLAIMS).iterdir()] == ["00000001.json"]


def test_starts_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    claims = [claim_on(tmp_path, str(number)) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda claim: claim.take(), claims))
    assert sorted(taken) == list(range(1, 9))
    assert [number for number, claim in zip(taken, claims, strict=True) if is_allowed(claim.check)] == [8]


def is_allowed(check: object) -> bool:
    try:
        check()  # type: ignore[operator]
    except RunDirError:
        return False
    return True


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"job": 3}'])
def test_files_of_others_count_by_their_names_alone(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / CLAIMS
    folder.mkdir()
    for name in ("00000007.json", "x.json", ".tmp", "٣.json"):
        (folder / name).write_bytes(content)
    assert claim_on(tmp_path, "a").take() == 8


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / CLAIMS).write_text("a file")
    with pytest.raises(RunDirError, match=CLAIMS):
        claim_on(tmp_path, "a").take()


def made(store: CheckpointStore, step: int, generation: int) -> str:
    """Makes a checkpoint; returns its name."""
    with store.writing(step, generation) as draft:
        draft.add("model.weights.h5", b"weights")
    return max(entry for entry in store.stored() if entry.step == step).path.name


def test_what_an_earlier_start_makes_whole_too_late_is_not_resumed(tmp_path: Path) -> None:
    """It has looked for later claims, and was cut off before its marker."""
    store = open_store(tmp_path)
    made(store, 4, 1)
    made(store, 8, 2)
    made(store, 12, 1)
    order = [entry.path.name for entry in by_generation(store.stored())]
    assert order == ["step-00000008", "step-00000012", "step-00000004"]
    assert [entry.fault() for entry in store.stored()] == [None] * 3


@pytest.mark.parametrize("marker", [b"", b"[]", b'{"generation": "2"}', b'{"generation": -1}', b'{"generation": true}'])
def test_a_marker_without_a_generation_is_of_none(marker: bytes, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    made(store, 4, 0)
    (entry,) = store.stored()
    assert entry.generation == 0
    (tmp_path / "step-00000004" / checkpoint_files.MARKER).write_bytes(marker)
    assert entry.generation == 0


def test_in_a_bucket_each_generation_has_names_of_its_own() -> None:
    """There two that write at once would write the same objects."""
    assert [checkpoint_files.free_name([], 4, least) for least in (0, 2, 3)] == [
        "step-00000004",
        "step-00000004.2",
        "step-00000004.3",
    ]
