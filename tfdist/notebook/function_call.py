"""Function call: a function of the notebook with its arguments, written for the workers and read by them.

cloudpickle writes what the notebook has defined by value: the function, the classes and functions that it uses, and
their globals. What comes from a module is written as its name, and imported in the worker.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tfdist.errors import UsageError, WorkerFailedError
from tfdist.notebook.call_folder import CallFolder, writing
from tfdist.notebook.kernel_state import KernelState, register_objects, registered_objects
from tfdist.rundir.atomic_files import replacing
from tfdist.text import safe_str


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
    """What the function returned on the chief, of a job that has ended without a failure.

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
