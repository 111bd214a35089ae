"""Scripts written for TensorFlow alone make their own strategy: they get the installed one, where its kind fits."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.training.session import Session

_KINDS = {"MirroredStrategy": "mirrored", "MultiWorkerMirroredStrategy": "multi_worker"}


def adopt_strategies(session: Session) -> None:
    """Makes `tf.distribute.MirroredStrategy()` and `MultiWorkerMirroredStrategy()` return the session's strategy.

    With one worker and one device nothing is installed, and a script's own strategy is what it makes.
    """
    if session.choice.kind == "one":
        return
    for name, kind in _KINDS.items():
        setattr(tf.distribute, name, _stand_in(getattr(tf.distribute, name), kind, session))
    tf.distribute.experimental.MultiWorkerMirroredStrategy = tf.distribute.MultiWorkerMirroredStrategy


def _stand_in(original: type, kind: str, session: Session) -> type:
    """A class that answers `isinstance` as `original` and hands out the session's strategy when called."""

    class StandIn(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if session.choice.kind != kind:
                raise _does_not_fit(original.__name__, session)
            return session.strategy

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    return StandIn(original.__name__, (), {"__doc__": original.__doc__, "__module__": original.__module__})


def _does_not_fit(name: str, session: Session) -> UnsupportedError:
    workers = session.num_workers
    here = f"{workers} workers" if workers > 1 else f"one worker with {len(session.devices)} devices"
    remedy = (
        "Start one worker (without --workers and --nproc)"
        if workers > 1
        else "Start several workers (--workers or --nproc)"
    )
    return UnsupportedError(
        f"The script makes a {name}, and this run has {here}, under {type(session.strategy).__name__}. {remedy}, or "
        "use tfdist.strategy() in the script, which fits every run."
    )
