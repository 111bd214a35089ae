"""Columns of Parquet files as arrays: which types they become, and their values. Nothing here loads TensorFlow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfdist.data.sample_source import ArraySpec
from tfdist.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def load_pyarrow() -> Any:
    """The package pyarrow, with its reader of Parquet files.

    Raises:
        UsageError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"Parquet files are read by the package pyarrow, which cannot be loaded ({error}). Expected it on every "
            "host. Install it: pip install 'tfdist[parquet]'"
        ) from error
    return pyarrow


@dataclass(frozen=True)
class ParquetColumn:
    """A column, and the arrays that its values become.

    Attributes:
        name: The column's.
        spec: The type and shape of one value: floating-point numbers become float32, as in Keras; integers and
            booleans keep their types; texts and bytes are strings. A list has the shape that was given for it, or the
            size that its type has.
    """

    name: str
    spec: ArraySpec

    @classmethod
    def of(cls, name: str, kind: pa.DataType, shape: tuple[int, ...] | None) -> ParquetColumn:
        """The column of an Arrow type.

        Args:
            name: Its name.
            kind: Its type.
            shape: The shape of a value that is a list; None for what the type says.

        Raises:
            ValueError: Its values are no numbers, texts or bytes, or lists of unknown or another size.
        """
        types = load_pyarrow().types
        value = kind
        if types.is_fixed_size_list(kind):
            shape = (kind.list_size,) if shape is None else shape
            if math.prod(shape) != kind.list_size:
                raise ValueError(f"its lists have {kind.list_size} values, and the shape {list(shape)} does not")
            value = kind.value_type
        elif types.is_list(kind) or types.is_large_list(kind):
            if shape is None:
                raise ValueError(f"a value is a list ({kind}) of a size that its type does not say. Give its shape")
            value = kind.value_type
        elif shape is not None:
            raise ValueError(f"a shape is given for it, and a value is no list but {kind}")
        return cls(name, ArraySpec(_dtype(value, types), shape or ()))

    def values(self, column: pa.ChunkedArray) -> NDArray:
        """The values of some rows, [rows, *shape]; strings as objects that are bytes.

        Raises:
            ValueError: A value is missing, or a list has another size.
        """
        rows = len(column)
        whole = column.combine_chunks()
        if isinstance(whole, load_pyarrow().ChunkedArray):  # of some versions, where there is one chunk or none
            whole = whole.chunk(0) if whole.num_chunks else load_pyarrow().array([], column.type)
        _refuse_nulls(whole)
        if self.spec.shape:
            lengths = whole.value_lengths().to_numpy(zero_copy_only=False)
            size = math.prod(self.spec.shape)
            if len(other := np.flatnonzero(lengths != size)):
                raise ValueError(f"row {other[0]} has {lengths[other[0]]} values, expected {size}")
            whole = whole.flatten()
            if whole.null_count:
                missing = np.flatnonzero(whole.is_null().to_numpy(zero_copy_only=False))
                raise ValueError(f"row {missing[0] // size} has a list with a missing value (null)")
        return self._array(whole).reshape(rows, *self.spec.shape)

    def _array(self, values: pa.Array) -> NDArray:
        arrow = load_pyarrow()
        if arrow.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if self.spec.dtype == "string":
            array = np.empty(len(values), np.object_)
            array[:] = values.cast(arrow.large_binary()).to_pylist()
            return array
        return values.to_numpy(zero_copy_only=False).astype(self.spec.dtype, copy=False)


def _refuse_nulls(values: pa.Array) -> None:
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"row {row} has no value (null)")


def _dtype(kind: pa.DataType, types: Any) -> str:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_floating(kind):
        return "float32"
    if types.is_integer(kind) or types.is_boolean(kind):
        return "bool" if types.is_boolean(kind) else str(kind)
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if any(is_text(kind) for is_text in texts):
        return "string"
    raise ValueError(f"its type is {kind}. Expected numbers, booleans, texts, bytes, or lists of these")
