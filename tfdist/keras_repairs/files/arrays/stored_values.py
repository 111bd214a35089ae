"""Values of a file of weights before they are read, and a worker's shards of them: nothing else of them is in memory.

Keras's store makes an array of all that it is asked for.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from keras.src.saving import saving_lib
from numpy.typing import NDArray

from tfdist.sharding.cut import Cut


def stored_value(store: Any, key: str) -> Any:
    """A value of a store of Keras.

    Args:
        store: What `load_own_variables` is given.
        key: The value's.

    Returns:
        An `h5py.Dataset`, of which nothing is read yet, where the store is a file of HDF5; else what the store says.
    """
    found = dataset_of(store, key)
    return store[key] if found is None else found


def dataset_of(store: Any, key: str) -> h5py.Dataset | None:
    """A value's place in a file of HDF5, as Keras finds it: it refuses one that leads out of the file. Else None."""
    group = getattr(store, "_h5_entry_group", None)
    if group is None or key not in group:
        return None
    if hasattr(saving_lib, "safe_get_h5_dataset"):
        found = saving_lib.safe_get_h5_dataset(group, key)
    elif hasattr(store, "_verify_dataset"):
        found = store._verify_dataset(group[key])
    else:
        return None
    # HDF5 has no bfloat16: Keras says what its bytes are.
    return None if "dtype" in found.attrs else found


def read_shard(source: Any, cut: Cut, worker: int) -> NDArray:
    """A worker's shard of a value.

    Args:
        source: An array or a tensor; or a dataset of a file, of which the shard alone is read, and all of the rows in
            which it begins and ends.
        cut: How it is cut; of the shape of `source`.
        worker: Whose.

    Returns:
        The shard, of the shape that the cut says.
    """
    start, stop = cut.span(worker)
    shape = cut.shard_shape(worker)
    if not isinstance(source, h5py.Dataset):
        source = np.asarray(source)
    if start == stop:
        return np.empty(shape, source.dtype)
    if stop - start == cut.size:
        return np.asarray(source[()]).reshape(shape)
    row = cut.row_size
    first, last = start // row, -(-stop // row)
    rows = np.asarray(source[first:last]).reshape(-1)
    return rows[start - first * row : stop - first * row].reshape(shape)
