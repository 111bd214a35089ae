"""A run of the user's own script or module, which may know nothing of tfdist.

Summary that a run of a script prints when it starts.

Refuses, of several workers, that a script switches eager execution off, as sessions of TensorFlow 1 then do.

What all workers agree on, and what they wait for, is computed eagerly. A graph of TensorFlow 1 that a script makes with
`tf.Graph()` and runs in a session is left alone: it is of one worker.

Adopts scripts' device and thread settings, which come too late: warns that they are ignored, names the option.

Execution of a user's script or module in this process, as python would execute it.

TensorFlow's tutorials make a MirroredStrategy for the devices of a machine, and a MultiWorkerMirroredStrategy for those
of several workers. Which of them a run has is decided by how it is started.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import logging
import os
import runpy
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.launch.environment import Assignment
from tfdist.runtime.strategy_settings import settings_of
from tfdist.text import safe_str
from tfdist.training.provenance import write_script
from tfdist.training.session import current_session as sessions
from tfdist.training.session.session import LaunchedSession, Session
from tfdist.training.session.session_description import announcer, describe

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


def execute_script(target: str, args: Sequence[str], *, is_module: bool) -> int:
    """Executes a script or module with argv, `__main__` and `sys.path[0]` as python sets them.

    Args:
        target: The script's path, or the module's dotted name.
        args: Its arguments.
        is_module: Whether `target` is a module.

    Returns:
        The exit code that python would end with; what the script raises is raised.
    """
    sys.argv = [target, *args]
    worker = os.getpid()
    try:
        code = _execute(target, is_module)
    except BaseException:
        if os.getpid() == worker:
            raise
        traceback.print_exc()
        code = 1
    if os.getpid() != worker:
        # A process that the script forked came to the script's end: it must not continue as the worker.
        sys.stdout.flush()
        os._exit(code)
    return code


def _execute(target: str, is_module: bool) -> int:
    try:
        if is_module:
            # Started with -m itself, this process already has the working directory first on its path.
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            _execute_file(os.path.abspath(target))
    except SystemExit as end:
        return _exit_code(end)
    return 0


def _execute_file(path: str) -> None:
    """Executes a file. (`runpy` would set another `sys.argv[0]`, and remove `__main__` at the end.)"""
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(loader.source_to_code(loader.get_data(path), path), main.__dict__)


def _exit_code(end: SystemExit) -> int:
    """Returns what python exits with: text goes to stderr and counts as 1."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(safe_str(end.code), file=sys.stderr, flush=True)
    return 1


_log = logging.getLogger("tfdist")

_OPTIONS = {
    "set_visible_devices": "use --devices",
    "set_logical_device_configuration": "use --logical-devices and --memory-limit",
    "experimental.set_virtual_device_configuration": "use --logical-devices and --memory-limit",
    "experimental.set_memory_growth": "tfdist already lets GPU memory grow",
    "threading.set_intra_op_parallelism_threads": "set TF_NUM_INTRAOP_THREADS in the environment",
    "threading.set_inter_op_parallelism_threads": "set TF_NUM_INTEROP_THREADS in the environment",
}


def adopt_settings() -> None:
    """Makes settings that TensorFlow refuses after it has started warn instead; they have no effect."""
    for path, option in _OPTIONS.items():
        owner, _, name = f"tf.config.{path}".rpartition(".")
        module = tf.config
        for part in owner.split(".")[2:]:
            module = getattr(module, part)
        setattr(module, name, _warning(getattr(module, name), f"tf.config.{path}", option))


def _warning(original: Callable[..., Any], path: str, option: str) -> Callable[..., Any]:
    def setting(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError:
            _log.warning("%s in the script is ignored: tfdist has set up the devices before it; %s.", path, option)
            return None

    return setting


_SWITCHES = ("disable_eager_execution", "disable_v2_behavior")


def run_script(assignment: Assignment) -> int:
    """Runs the script under the session's strategy.

    Returns:
        The exit code that python would end with; what the script raises is raised.
    """
    session = sessions.start(assignment, sessions.requested_devices(assignment))
    if session.is_chief:
        write_script(session, assignment)
        announcer(quiet=assignment.quiet, stream=sys.stderr)(start_line(session))
    adopt_strategies(session)
    keep_eager(session.num_workers)
    if session.choice.kind != "one":
        adopt_settings()
    try:
        code = execute_script(assignment.target, assignment.args, is_module=assignment.target_kind == "module")
    except BaseException:
        _finish(session, together=False)
        raise
    _finish(session, together=True)
    session.fit_registry.warn_if_nothing_was_saved()
    return code


def _finish(session: LaunchedSession, *, together: bool) -> None:
    if session.results is not None:
        session.results.finish(together=together)


def start_line(session: LaunchedSession) -> str:
    """On what the script runs, by which strategy, collectives and kernels, and where it writes."""
    return f"tfdist: {describe(session)}; run directory {session.run}"


def keep_eager(workers: int) -> None:
    """Makes the switches of TensorFlow 1 raise `UnsupportedError` on several workers."""
    if workers == 1:
        return
    for module in ("tensorflow._api.v2.compat.v1", "tensorflow.compat.v1"):
        for name in _SWITCHES:
            setattr(importlib.import_module(module), name, _refusing(name))


def _refusing(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            f"The script calls tf.compat.v1.{name}(), and this run has several workers, which exchange eagerly. "
            "Expected TensorFlow 2, or a graph of its own: with tf.Graph().as_default(), which each worker runs for "
            "itself. Received: a switch for the whole process. Leave it out, or start one worker (--nproc 1)."
        )

    return refuse
