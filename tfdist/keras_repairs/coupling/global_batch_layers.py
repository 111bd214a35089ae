"""Calls a layer with the rows of all replicas, as one replica would; each replica goes on with its own rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from tfdist.keras_repairs.base.replica_copies import on_global_batch
from tfdist.keras_repairs.base.replica_step import alone, current_step
from tfdist.keras_repairs.coupling import collected_losses
from tfdist.keras_repairs.coupling.call_scope import Losses
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_rows

Function = Callable[..., Any]


def call_with_all_rows(call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what `call` returns for the rows of this replica, called with those of all.

    What it assigns to variables is the same on all replicas. What it adds to the losses is the loss of the global batch
    on every replica, and counts once.

    Args:
        call: A layer, to be called in the context of a replica, on all of them.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    step = current_step()
    calls: list[Losses] = []

    def called(values: Any) -> Any:
        args, kwargs = values
        with alone(), on_global_batch():
            if step is None:
                return call(*args, **kwargs)
            with collected_losses.collecting() as losses:
                calls.append(losses)
                return call(*args, **kwargs)

    outputs = gathered_for_rows((args, kwargs)).own_rows(called)
    if step is not None:
        # Of the first call: a further one is a trace, which tells what the outputs are.
        for layer, terms in calls[0].items():
            # As Keras adds them up; a scalar that is the same on every replica is a mean over all samples.
            means = [collected_losses.marked_as_mean(ops.sum(term)) for term in terms]
            step.noted.added_losses.setdefault(layer, []).extend(means)
    return outputs
