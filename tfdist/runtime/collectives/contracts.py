"""Contracts: what a worker says of its call, so that workers that disagree find out and say how."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.collectives.values import Leaf, Values

_MOST_SHOWN = 4
_REBUILT = {"list": list, "tuple": tuple}


@dataclass(frozen=True)
class Contract:
    """A worker's call in words.

    Attributes:
        call: What it calls, such as `all_reduce(sum)`.
        values: Its values' structure, dtypes and shapes, of lists, dicts, texts and numbers; None where it gives none.
    """

    call: str
    values: Any = None

    @property
    def text(self) -> bytes:
        """For the others."""
        return json.dumps([self.call, self.values]).encode()

    @classmethod
    def parse(cls, text: bytes) -> Contract:
        """The contract that has a text."""
        return cls(*json.loads(text))

    @property
    def call_sum(self) -> int:
        """A checksum of the call."""
        return zlib.crc32(self.call.encode())

    @property
    def values_sum(self) -> int:
        """A checksum of the values' description; 0 where there are none."""
        return 0 if self.values is None else zlib.crc32(json.dumps(_without_kind(self.values)).encode()) | 1


def contract_of(call: str, values: Values | None) -> Contract:
    """The contract of a call with some values, or with none."""
    if values is None:
        return Contract(call)
    return Contract(call, _described(values.structure, iter(values.leaves)))


def values_like(contract: Contract) -> Values:
    """Zeros of the structure, dtypes and shapes of another worker's values.

    Raises:
        UsageError: They are in a nest of a class of their own.
    """
    leaves: list[Leaf] = []
    structure = _rebuilt(contract.values, leaves)
    return Values(structure, tuple(leaves))


def disagreement(contracts: Mapping[int, Contract]) -> UsageError:
    """The error for workers, by index, whose contracts differ: it names what differs, of each of them."""
    calls = {worker: contract.call for worker, contract in contracts.items()}
    if len(set(calls.values())) > 1:
        return UsageError(
            "Workers call the same collectives in the same order. Received: "
            + "; ".join(f"{text} on {_workers(chosen)}" for text, chosen in _grouped(calls))
            + ". See that every worker of the group makes the same calls, outside of `if tfdist.is_chief():`."
        )
    call = next(iter(calls.values()))
    told = {worker: _leaves(contract.values) for worker, contract in contracts.items() if contract.values is not None}
    places = [place for place in dict.fromkeys(place for leaves in told.values() for place in leaves)]
    differing = [place for place in places if len({leaves.get(place) for leaves in told.values()}) > 1]
    parts = []
    for place in differing[:_MOST_SHOWN]:
        said = {worker: leaves.get(place, "nothing") for worker, leaves in told.items()}
        parts.append(place + "; ".join(f"{text} on {_workers(chosen)}" for text, chosen in _grouped(said)))
    more = "" if len(differing) <= _MOST_SHOWN else f"; and {len(differing) - _MOST_SHOWN} more"
    return UsageError(
        f"{call}: workers exchange values of one structure, shape and dtype. Received: {'; '.join(parts)}{more}. "
        "Convert the value on every worker, as with tf.cast(value, tf.float32) or numpy.asarray(value, 'float32'), and "
        "pad shorter ones, as with tf.pad; for Python values of any size there is tfdist.all_gather_object."
    )


def shown(contract: Contract) -> str:
    """A contract in words, such as `all_reduce(sum) of float32 of shape (3,)`."""
    if contract.values is None:
        return contract.call
    return f"{contract.call} of " + "; ".join(place + text for place, text in _leaves(contract.values).items())


def without_shapes(described: Any) -> Any:
    """A description with ranks instead of shapes, which a traced call may not know yet."""
    if described is None:
        return None
    name, *rest = described
    if name == "leaf":
        return [name, rest[0], len(rest[1])]
    return [name, [[key, without_shapes(part)] for key, part in rest[0]]]


def _grouped(texts: Mapping[int, str]) -> list[tuple[str, list[int]]]:
    groups: dict[str, list[int]] = {}
    for worker, text in texts.items():
        groups.setdefault(text, []).append(worker)
    return list(groups.items())


def _workers(indices: Sequence[int]) -> str:
    return f"worker{'s' * (len(indices) > 1)} {', '.join(map(str, indices))}"


def _described(structure: Any, leaves: Any) -> Any:
    """A structure as lists that JSON has: `["leaf", dtype, shape, is_array]`, or its class and its parts."""
    if isinstance(structure, Mapping):
        keys = sorted(structure)
        return [type(structure).__name__, [[key if isinstance(key, str | int) else repr(key),
                                            _described(structure[key], leaves)] for key in keys]]  # fmt: skip
    if isinstance(structure, list | tuple) and tf.nest.is_nested(structure):
        return [type(structure).__name__, [[place, _described(part, leaves)] for place, part in enumerate(structure)]]
    if tf.nest.is_nested(structure):
        parts = [next(leaves) for _ in tf.nest.flatten(structure)]
        return [type(structure).__name__, [[place, _leaf(leaf)] for place, leaf in enumerate(parts)]]
    return _leaf(next(leaves))


def _leaf(leaf: Leaf) -> list[Any]:
    return ["leaf", leaf.dtype, list(leaf.shape), leaf.array is not None]


def _without_kind(described: Any) -> Any:
    """The description without whether a leaf is an array: workers may give a tensor and an array."""
    name, *rest = described
    if name == "leaf":
        return [name, *rest[:2]]
    return [name, [[key, _without_kind(part)] for key, part in rest[0]]]


def _leaves(described: Any, place: str = "") -> dict[str, str]:
    """Each leaf's place, such as `['a'][0]: `, and its dtype and shape in words."""
    name, *rest = described
    if name == "leaf":
        return {f"{place}: " if place else "": f"{rest[0]} of shape {tuple(rest[1])}"}
    found: dict[str, str] = {}
    for key, part in rest[0]:
        found |= _leaves(part, f"{place}[{key!r}]")
    return found or {f"{place}: ": f"an empty {name}"}


def _rebuilt(described: Any, leaves: list[Leaf]) -> Any:
    name, *rest = described
    if name == "leaf":
        leaves.append(_zeros(*rest))
        return 0
    parts = [(key, _rebuilt(part, leaves)) for key, part in rest[0]]
    if name == "dict":
        return dict(parts)
    if name in _REBUILT:
        return _REBUILT[name](part for _, part in parts)
    raise UsageError(
        f"A worker that gives no value gets one in lists, tuples and dicts. Received: values in a {name} on another "
        "worker. Give every worker the structure, with a tf.TensorSpec(shape, dtype) for each tensor."
    )


def _zeros(dtype: str, shape: list[int], is_array: bool) -> Leaf:
    try:
        tensor_dtype = tf.as_dtype(dtype)
    except TypeError:
        tensor_dtype = tf.string
    if tensor_dtype.name != dtype:
        array = np.dtype(dtype)
        return Leaf(tf.zeros([*shape, array.itemsize], tf.uint8), array)
    return Leaf(tf.zeros(shape, tensor_dtype), np.dtype(tensor_dtype.as_numpy_dtype) if is_array else None)
