"""Adopts scripts that make a strategy of their own: they get the session's, as what it is for is the same.

TensorFlow's tutorials make a MirroredStrategy for the devices of a machine, and a MultiWorkerMirroredStrategy for those
of several workers. Which of them a run has is decided by how it is started.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.strategy_settings import settings_of
from tfdist.training.session.session import Session

_KINDS = {
    "MirroredStrategy": "mirrored",
    "MultiWorkerMirroredStrategy": "multi_worker",
    "OneDeviceStrategy": "one",
    "ParameterServerStrategy": "parameter_server",
    "TPUStrategy": "tpu",
}
"""The kind of run that each of TensorFlow's strategies fits."""

_NAMES = {kind: name for name, kind in _KINDS.items()}
"""By the names of TensorFlow's documentation; that of the class behind MultiWorkerMirroredStrategy is another."""

_OF_ALL_REPLICAS = ("mirrored", "multi_worker")
"""The kinds of strategy by which a script means the strategy of all replicas of its job."""

_REMEDIES = {
    "one": "Start one worker with one device (--nproc 1 --devices 0)",
}
"""The remedies: how to start a run of a kind; tfdist has no run of the other kinds."""


def adopt_strategies(session: Session) -> None:
    """Makes TensorFlow's strategies of several replicas return the session's, and refuses the others.

    With one worker and one device nothing is replaced, and a script has the strategy that it makes.
    """
    if session.choice.kind == "one":
        return
    for name in _KINDS:
        stand_in = _stand_in(getattr(tf.distribute, name), name, session)
        for module in (tf.distribute, tf.distribute.experimental):
            if hasattr(module, name):
                setattr(module, name, stand_in)


def _stand_in(original: type, name: str, session: Session) -> type:
    """A class that answers `isinstance` as `original` and hands out the session's strategy when called."""

    class StandIn(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if _KINDS[name] not in _OF_ALL_REPLICAS:
                raise _does_not_fit(name, session)
            if session.choice.kind != _KINDS[name]:
                warn_once(
                    f"the {name} that the script makes is the job's strategy, {_NAMES[session.choice.kind]} of "
                    f"{session.strategy.num_replicas_in_sync} replicas."
                )
            settings_of(session.strategy).made_by_script = True
            return session.strategy

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    return StandIn(original.__name__, (), {"__doc__": original.__doc__, "__module__": original.__module__})


def _does_not_fit(name: str, session: Session) -> UnsupportedError:
    workers, kind = session.num_workers, _KINDS[name]
    here = f"{workers} workers" if workers > 1 else f"one worker with {len(session.devices)} devices"
    remedy = f"{_REMEDIES[kind]}, or use" if kind in _REMEDIES else "Use"
    return UnsupportedError(
        f"The script makes a {name}, and this run has {here}, under {_NAMES[session.choice.kind]}. {remedy} "
        "tfdist.strategy() in the script, which fits every run."
    )
