"""Files of this machine that go into a store, and objects that come from one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tfdist.storage.file_content import FileContent
from tfdist.storage.object_store import ObjectStore

BLOCK_BYTES = 8 << 20


def upload(folder: Path, store: ObjectStore, url: str, last: Callable[[Path], bool] = lambda path: False) -> None:
    """Writes all files of a folder, and of the folders in it, below a URL, each as a whole.

    Args:
        folder: The folder.
        store: The store.
        url: What stands for the folder.
        last: Which files are written after all others, as those that name them.

    Raises:
        OSError: One cannot be read or written.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in [*(path for path in files if not last(path)), *filter(last, files)]:
        name = path.relative_to(folder).as_posix()
        with path.open("rb") as file:
            store.write(f"{url}/{name}", FileContent(file))


def download(store: ObjectStore, urls: Sequence[str], folder: Path) -> list[Path]:
    """Copies objects into a folder, under the last parts of their names.

    Raises:
        OSError: One cannot be read or written.
    """
    copies = []
    for url in urls:
        copies.append(folder / url.rpartition("/")[2])
        with store.open(url) as source, copies[-1].open("wb") as target:
            while block := source.read(BLOCK_BYTES):
                target.write(block)
    return copies
