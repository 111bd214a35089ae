"""The effects of a compiled step beside computing with variables; with any, it is not made once more to be checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_EFFECT = re.compile(
    r"^(Write\w*Summary|WriteSummary|Print|PrintV2|WriteFile|Save\w*|EagerPyFunc|PyFunc|Queue\w*Enqueue\w*|"
    r"Queue\w*Dequeue\w*|Stack\w+|Barrier\w+|LookupTable(Insert|Import|Remove)\w*|MutexLock)$"
)

_OWN = "tfdist_exchange"
"""The name of exchanges of tfdist's own between workers."""


def effects_of(function: Any) -> list[str]:
    """The operations of a concrete function that do something outside of it, by their names; none where it has none."""
    return sorted({node.op for node in _nodes(function) if _EFFECT.match(node.op) and _OWN not in node.name})


def _nodes(function: Any) -> Iterator[Any]:
    definition = function.graph.as_graph_def()
    yield from definition.node
    for inner in definition.library.function:
        yield from inner.node_def
