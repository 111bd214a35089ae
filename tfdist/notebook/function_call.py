"""Function call: a function of the notebook with its arguments, written for the workers and read by them.

cloudpickle writes what the notebook has defined by value: the function, the classes and functions that it uses, and
their globals. What comes from a module is written as its name, and imported in the worker.
"""

from __future__ import annotations

import inspect
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.notebook.call_folder import CallFolder, writing
from tfdist.rundir.atomic_files import replacing
from tfdist.text import safe_str


@dataclass(frozen=True)
class KernelState:
    """The state that a worker takes over before it loads the function.

    Attributes:
        sources: The cells' source texts by the names that their code has for files. AutoGraph reads them, and
            tracebacks show them.
        keras_settings: Keras's global settings by name; empty where the notebook has not loaded Keras.
    """

    sources: dict[str, list[str]] = field(default_factory=dict)
    keras_settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls) -> KernelState:
        """The state of the process that calls this."""
        return cls(_cells(), _keras_settings())

    def take_over(self) -> None:
        """Makes it the state of the process that calls this."""
        for name, lines in self.sources.items():
            # Without a time of its file, Python does not look whether that has changed.
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
        if self.keras_settings:
            _set_keras(self.keras_settings)


def registered_objects() -> dict[str, Any]:
    """The notebook's own classes and functions by the names under which Keras knows them, to load saved models."""
    if "keras" not in sys.modules:
        return {}
    import keras

    known = keras.saving.get_custom_objects()
    return {name: value for name, value in known.items() if getattr(value, "__module__", "") == "__main__"}


def register_objects(objects: dict[str, Any]) -> None:
    """Makes them known to Keras under these names."""
    if not objects:
        return
    import keras

    for name, value in objects.items():
        package, separator, own = name.partition(">")
        if separator:
            keras.saving.register_keras_serializable(package, own)(value)
        else:
            keras.saving.get_custom_objects()[name] = value


def _cells() -> dict[str, list[str]]:
    """Returns what was typed, not read from a file: only that has no time of its file in the cache."""
    typed = ((name, entry) for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None)
    return {name: list(entry[2]) for name, entry in typed if not os.path.exists(name)}


def _keras_settings() -> dict[str, Any]:
    if "keras" not in sys.modules:
        return {}
    import keras

    return {
        "floatx": keras.config.floatx(),
        "epsilon": keras.config.epsilon(),
        "image_data_format": keras.config.image_data_format(),
        "dtype_policy": keras.dtype_policies.serialize(keras.config.dtype_policy()),
    }


def _set_keras(settings: dict[str, Any]) -> None:
    import keras

    keras.config.set_floatx(settings["floatx"])
    keras.config.set_epsilon(settings["epsilon"])
    keras.config.set_image_data_format(settings["image_data_format"])
    keras.config.set_dtype_policy(keras.dtype_policies.deserialize(settings["dtype_policy"]))


@dataclass(frozen=True)
class FunctionCall:
    """A function and what it is called with.

    Attributes:
        function: Called in every worker.
        args: Its arguments, the same in every worker.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]

    def write(self, folder: CallFolder) -> None:
        """Writes the call, and the state of this process that it needs, into the folder.

        Raises:
            UsageError: cloudpickle is not installed, or something that the function uses cannot be pickled.
            RunDirError: The disk is full.
        """
        _cloudpickle()  # refused where it is missing
        from tfdist.notebook.cell_pickler import CellPickler

        with writing(), folder.call.open("wb") as file:
            # On its own: a worker needs it before it can read the rest.
            pickle.dump(KernelState.of_this_process(), file)
            try:
                CellPickler(file).dump((self.function, self.args, registered_objects()))
            except OSError:
                raise
            except Exception as error:
                raise UsageError(self._unpicklable(error)) from error

    @classmethod
    def read(cls, folder: CallFolder) -> FunctionCall:
        """Reads the call in a worker, and takes over the state that was written with it."""
        with folder.call.open("rb") as file:
            pickle.load(file).take_over()
            function, args, objects = pickle.load(file)
        register_objects(objects)
        return cls(function, args)

    def _unpicklable(self, error: Exception) -> str:
        name, value = next(self._culprits(), (getattr(self.function, "__name__", "the function"), self.function))
        return (
            f"The function cannot be handed to the workers, which are new processes: {name} cannot be pickled "
            f"({type(error).__name__}: {safe_str(error)}). Expected what the function uses to be data, functions and "
            f"classes. Received: {name}, a {type(value).__module__}.{type(value).__qualname__}. "
            "Make it inside of the function."
        )

    def _culprits(self) -> Iterator[tuple[str, Any]]:
        """The arguments, and the variables that the function uses by name, that cannot be pickled themselves."""
        cloudpickle = _cloudpickle()
        named = [(f"argument {place}", value) for place, value in enumerate(self.args)]
        if inspect.isfunction(self.function):
            variables = inspect.getclosurevars(self.function)
            named += [*variables.nonlocals.items(), *variables.globals.items()]
        for name, value in named:
            try:
                cloudpickle.dumps(value)
            except Exception:
                yield name, value


def write_result(folder: CallFolder, result: Any) -> None:
    """Writes what the function returned, or why that cannot be pickled, for the kernel."""
    cloudpickle = _cloudpickle()
    try:
        content = cloudpickle.dumps((result, None))
    except Exception as error:
        content = cloudpickle.dumps((None, f"{type(result).__qualname__} ({type(error).__name__}: {safe_str(error)})"))
    with replacing(folder.result, durable=False) as path:
        path.write_bytes(content)


def read_result(folder: CallFolder) -> Any:
    """Returns what the function returned on the chief, of a job that has ended without a failure.

    Raises:
        WorkerFailedError: It did not return: the chief's process has ended in it.
        UsageError: It could not be pickled, or cannot be loaded here.
    """
    try:
        with folder.result.open("rb") as file:
            result, problem = pickle.load(file)
    except FileNotFoundError:
        raise WorkerFailedError(ended_by("sys.exit(0) or os._exit(0)")) from None
    except Exception as error:
        problem = f"it cannot be loaded ({type(error).__name__}: {safe_str(error)})"
    if problem is None:
        return result
    raise UsageError(
        "The job has ended without a failure, but what the function returned cannot be brought into the notebook. "
        f"Expected numbers, arrays, lists or dicts, such as `history.history`. Received: {problem}. Save a model in "
        "the function by `model.save(path)` and load it here."
    )


def ended_by(what: str) -> str:
    """Of a function that neither returned nor raised, but ended its process."""
    return (
        f"The function ended its worker by {what}, before it returned. Expected it to return, or to raise. Use "
        "`return` where it is done, and look at the end of its output above for where it was."
    )


def _cloudpickle() -> ModuleType:
    try:
        import cloudpickle
    except ImportError:
        raise UsageError(
            "notebook_launcher needs the package cloudpickle, which is not installed. Expected it where tfdist is "
            "installed. Install it (pip install 'tfdist[notebook]') and restart the kernel."
        ) from None
    return cloudpickle
