"""Restores what the user's objects hold beside variables of Keras, as it was before they were tried out.

A layer may count its calls, keep a queue of what it has seen, or assign to a `tf.Variable`. Its attributes are looked
through, and what they hold: lists, dicts, sets, arrays, generators of random numbers, objects of the user's classes,
what functions close over, and what the names of modules stand for that they use or assign. Not restored are iterators,
attributes of classes, arrays of more than 64 MiB, files, and whatever is outside of the process.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import pickle
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.attached_value import is_of_tfdist
from tfdist.keras_repairs.random_numbers import python_draws

Restore = Callable[[], None]

_MANY = 10_000
"""Items of a container from which on they are not looked through; the container itself is restored."""

_LARGE = 1 << 26
"""Bytes of an array from which on it is not copied."""

_OF_KERAS = keras.layers.Layer | keras.losses.Loss | keras.metrics.Metric | keras.optimizers.Optimizer


_WRAPPED = ("fn", "_fn", "function")
"""The attributes in which losses, metrics and layers of Keras's keep a function of the user's."""


@dataclass(frozen=True)
class VariableValues:
    """The values of variables of TensorFlow's, of each replica of this worker, as `run_emulated` asks for them.

    By operations that no gradient tape and no `tf.custom_gradient` takes for a use of the variables: replicas take
    turns in the middle of those.
    """

    variables: Sequence[tf.Variable]

    def read(self) -> list[tf.Tensor]:
        """Returns what they are now."""
        return [tf.raw_ops.ReadVariableOp(resource=copy.handle, dtype=copy.dtype) for copy in self._all_copies()]

    def write(self, state: Sequence[tf.Tensor]) -> None:
        """Makes them what they were."""
        for copy, value in zip(self._all_copies(), state, strict=True):
            tf.raw_ops.AssignVariableOp(resource=copy.handle, value=value)

    def _all_copies(self) -> list[tf.Variable]:
        return [copy for variable in self.variables for copy in _copies(variable)]


class KeptState:
    """The state of objects as it is when this is made, to be restored as often as they are tried out.

    Args:
        roots: Layers, losses, metrics or functions.
    """

    def __init__(self, *roots: Any) -> None:
        self.roots = roots
        self._restore: list[Restore] = []
        self._variables: list[tf.Variable] = []
        # With the objects, for them to live: the id of one that is gone may become that of another.
        self._seen: dict[int, Any] = {}
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                waiting.extend(self._keep(value))

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restores the state when the code inside has run."""
        try:
            yield
        finally:
            for restore in self._restore:
                restore()

    @property
    def variables(self) -> list[tf.Variable]:
        """The variables of TensorFlow's among what is kept."""
        return self._variables

    @property
    def values(self) -> list[Any]:
        """All objects that were looked through."""
        return list(self._seen.values())

    def variables_of_all(self) -> list[tf.Variable]:
        """The variables of TensorFlow's among what is kept, and those behind Keras's objects in it, of all replicas of
        this worker."""
        of_keras = [value for value in self.values if isinstance(value, _OF_KERAS)]
        held = {id(one): one for value in of_keras for one in getattr(value, "variables", ())}
        found = [one._value for one in held.values() if isinstance(one, keras.Variable) and one._value is not None]
        return [copy for variable in [*self._variables, *found] for copy in _copies(variable)]

    @property
    def variable_values(self) -> VariableValues:
        """Their values."""
        return VariableValues(self._variables)

    def _keep(self, value: Any) -> list[Any]:
        """Keeps what can change in a value; returns what it holds."""
        if isinstance(value, tf.Variable):
            self._variables.append(value)
            self._restore += [_of_variable(copy) for copy in _copies(value)]
            return []
        restore = _restore_of(value)
        if restore is not None:
            self._restore.append(restore)
        if isinstance(value, list | tuple | set | frozenset | deque):
            return list(value) if len(value) <= _MANY else []
        if isinstance(value, dict):
            return list(value.values()) if len(value) <= _MANY else []
        if isinstance(value, types.FunctionType):
            return [*(cell.cell_contents for cell in _cells(value)), *_globals(value)]
        if isinstance(value, types.MethodType | functools.partial):
            return [value.__self__] if isinstance(value, types.MethodType) else [value.func, value.args, value.keywords]
        inner = list(value._flatten_layers()) if isinstance(value, keras.layers.Layer) else []
        wrapped = [getattr(value, name, None) for name in _WRAPPED] if isinstance(value, _OF_KERAS) else []
        return [*inner, *wrapped, *_attributes(value).values(), *_methods(value)]


def _restore_of(value: Any) -> Restore | None:
    """Returns what restores a value that can change in its place; None where none can."""
    if isinstance(value, list | deque | set | dict):
        return _of_container(value)
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
        return _of_generator(value)
    if isinstance(value, types.FunctionType):
        return _of_names(value)
    return _of_attributes(value) if _attributes(value) else None


def _of_variable(variable: tf.Variable) -> Restore:
    # Also while a function is traced, whose tensors are of no use outside of it.
    with tf.init_scope():
        if not bool(tf.raw_ops.VarIsInitializedOp(resource=variable.handle)):
            return lambda: None
        before = variable.read_value()

    def restore() -> None:
        variable.assign(before)

    return restore


def _of_container(container: Any) -> Restore:
    before = dict(container) if isinstance(container, dict) else list(container)

    def restore() -> None:
        if isinstance(container, dict):
            if not _is_same_dict(container, before):
                container.clear()
                container.update(before)
        elif len(container) != len(before) or any(a is not b for a, b in zip(container, before, strict=True)):
            if isinstance(container, list):
                container[:] = before
            else:
                container.clear()
                (container.update if isinstance(container, set) else container.extend)(before)

    return restore


def _is_same_dict(one: dict[Any, Any], other: Any) -> bool:
    return list(one) == list(other) and all(one[key] is other[key] for key in other)


def _of_array(array: NDArray) -> Restore | None:
    if isinstance(array, np.memmap) or array.nbytes > _LARGE or not array.flags.writeable:
        return None
    before = array.copy()

    def restore() -> None:
        array[...] = before

    return restore


def _of_generator(generator: Any) -> Restore:
    """Restores a generator, and notes that it has drawn."""
    read, write = _state_of(generator)
    before = read()
    known = pickle.dumps(before)

    def restore() -> None:
        if pickle.dumps(read()) != known:
            python_draws.note_generator(generator)
            write(before)

    return restore


def _state_of(generator: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Returns what reads the state of a generator, and what writes it."""
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    if isinstance(generator, np.random.RandomState):
        return generator.get_state, generator.set_state
    return generator.getstate, generator.setstate


def _of_names(function: types.FunctionType) -> Restore:
    """Restores what a user's function assigns to names around it: of functions, and of its module."""
    before = [(cell, cell.cell_contents) for cell in _cells(function)]
    names = _assigned_globals(function.__code__) if is_of_user(function) else set()
    of_module = {name: function.__globals__[name] for name in names & function.__globals__.keys()}

    def restore() -> None:
        for cell, contents in before:
            cell.cell_contents = contents
        function.__globals__.update(of_module)

    return restore


def _assigned_globals(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    own = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL"}
    return own.union(*map(_assigned_globals, inner))


def _cells(function: types.FunctionType) -> list[types.CellType]:
    """The names of the functions around it that a user's function reads or assigns, and that have a value."""
    return [] if not is_of_user(function) else [cell for cell in function.__closure__ or () if _has_value(cell)]


def _globals(function: types.FunctionType) -> list[Any]:
    """Returns what the names of its module that a user's function uses stand for, without modules and classes."""
    if not is_of_user(function):
        return []
    values = [function.__globals__[name] for name in sorted(names_in(function.__code__) & function.__globals__.keys())]
    return [value for value in values if not inspect.ismodule(value) and not inspect.isclass(value)]


def names_in(code: types.CodeType) -> set[str]:
    """The globals and attributes that a function, or one within it, reads."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def _methods(owner: Any) -> list[Any]:
    """The functions of the user's that the class of an object has."""
    found: list[types.FunctionType] = []
    for kind in type(owner).__mro__:
        for value in vars(kind).values() if is_of_user(kind) else ():
            # Of properties, static methods and tf.function.
            inner = (getattr(value, name, None) for name in ("fget", "__func__", "python_function"))
            found.extend(function for function in (value, *inner) if isinstance(function, types.FunctionType))
    return found


def _has_value(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _of_attributes(owner: Any) -> Restore:
    before = _attributes(owner)

    def restore() -> None:
        # Past Keras and TensorFlow, which track what is assigned.
        now = _attributes(owner)
        for name in now.keys() - before.keys():
            object.__delattr__(owner, name)
        for name, value in before.items():
            if name not in now or now[name] is not value:
                object.__setattr__(owner, name, value)

    return restore


def _attributes(owner: Any) -> dict[str, Any]:
    """The attributes of an object of the user's, without those that are Keras's own or tfdist's."""
    if inspect.isclass(owner) or inspect.ismodule(owner) or not hasattr(owner, "__dict__"):
        return {}
    if not (is_of_user(type(owner)) or isinstance(owner, tf.random.Generator)):
        return {}
    return own_attributes(owner)


def own_attributes(owner: Any) -> dict[str, Any]:
    """The attributes of an object, without those that all layers, losses, metrics and optimizers have, and tfdist's."""
    base = _attributes_of_keras() if isinstance(owner, _OF_KERAS) else frozenset()
    return {name: value for name, value in vars(owner).items() if name not in base and not is_of_tfdist(name)}


@functools.cache
def _attributes_of_keras() -> frozenset[str]:
    """Returns what Keras keeps in its layers, losses, metrics and optimizers."""
    kinds = (keras.layers.Layer, keras.Model, keras.losses.Loss, keras.metrics.Metric)
    found = {name for kind in kinds for name in vars(kind(name="bare"))}
    for kind in keras.optimizers.Optimizer.__mro__:
        # As they are written: an optimizer that is made makes variables, in whatever scope that is.
        if kind.__module__.startswith("keras.src.") and "__init__" in vars(kind):
            found.update(inspect.unwrap(kind.__init__).__code__.co_names)
    return frozenset(found)


def is_of_user(what: Any) -> bool:
    """Returns whether a class or function is neither Keras's nor of a library that is no layer of its own, nor
    Python's."""
    module = getattr(what, "__module__", None) or ""
    package = module.partition(".")[0]
    if package in ("keras", "tensorflow", "tfdist", "builtins") or package in sys.stdlib_module_names - {"queue"}:
        return package == "__main__"
    if inspect.isclass(what) and issubclass(what, _OF_KERAS | tf.Module):
        return True
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in path


def value_of(variable: tf.Variable) -> NDArray:
    """The value of a variable of TensorFlow's, of this worker's first replica where it has one for each."""
    return np.asarray(_copies(variable)[0].read_value())


def _copies(variable: tf.Variable) -> tuple[tf.Variable, ...]:
    """The variables of this worker's replicas behind a variable of TensorFlow's."""
    if not isinstance(variable, tf.distribute.DistributedValues):
        return (variable,)
    copies: tuple[tf.Variable, ...] = variable.distribute_strategy.experimental_local_results(variable)
    return copies
