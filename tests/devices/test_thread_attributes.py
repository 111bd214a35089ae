"""What Keras keeps for each thread is the same in the replicas, which TensorFlow runs in threads of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.utils.naming import auto_name

from tests.devices.repair_removal import take_out
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored

HANDOVER = "tensorflow.python.distribute.mirrored_run._call_for_each_replica"
SEEDS = "keras.src.random.seed_generator.global_seed_generator"

pytestmark = pytest.mark.usefixtures("repaired")


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    keras.utils.clear_session()
    keras.utils.set_random_seed(3)
    yield
    keras.utils.clear_session()


def in_replicas(function: Callable[[], Any], replicas: int = 2) -> list[Any]:
    """What `function` returns in each replica of a compiled `strategy.run`."""
    found: list[Any] = []
    strategy = mirrored(replicas)

    @tf.function
    def step() -> None:
        strategy.run(lambda: found.append(function()))

    step()
    return found


class Asking(keras.layers.Layer):
    """Asks for the dtype policy while it is called."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self.tell = tell

    def call(self, x: Any) -> Any:
        self.tell(keras.config.dtype_policy().name)
        return x


def policies_in_fit() -> set[str]:
    x, y = numbers(8)
    seen: list[str] = []
    keras.config.set_dtype_policy("mixed_bfloat16")
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((6,)), Asking(lambda name: seen.append(name)), keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        seen.clear()
        model.fit(x.astype("float32"), y, verbose=0)
    return set(seen)


def test_the_dtype_policy_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert policies_in_fit() == {"mixed_bfloat16"}
    take_out(HANDOVER, monkeypatch)
    assert policies_in_fit() == {"float32"}


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_any_attribute_in_a_loop_of_ones_own(replicas: int) -> None:
    global_state.set_global_attribute("of_a_test", "here")
    with keras.name_scope("outer"), keras.utils.CustomObjectScope({"Found": Asking}):
        seen = in_replicas(
            lambda: (
                global_state.get_global_attribute("of_a_test"),
                keras.src.backend.common.name_scope.current_path(),
                keras.utils.get_registered_object("Found"),
            ),
            replicas,
        )
    assert seen == [("here", "outer", Asking)] * replicas


def test_scopes_of_replicas_that_take_turns() -> None:
    """At a reduction TensorFlow turns from one replica, in the midst of its scopes, to the next."""

    def nested() -> str:
        with keras.name_scope("inner"):
            tf.distribute.get_replica_context().merge_call(lambda strategy: None)
            return str(keras.src.backend.common.name_scope.current_path())

    with keras.name_scope("outer"):
        assert in_replicas(nested) == ["outer/inner"] * 2
        assert keras.src.backend.common.name_scope.current_path() == "outer"


def test_what_a_replica_sets_lasts() -> None:
    assert in_replicas(lambda: auto_name("Thing")) == ["thing", "thing"]
    assert auto_name("Thing") == "thing_1"
    in_replicas(lambda: keras.config.set_dtype_policy("mixed_bfloat16"))
    assert keras.config.dtype_policy().name == "mixed_bfloat16"


class Noisy(keras.Model):
    """Draws without a seed, in its call or in its step alone."""

    def __init__(self, *, in_call: bool) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3)
        self.in_call = in_call

    def call(self, x: Any) -> Any:
        return self.dense(x + keras.random.normal((1, 6)) if self.in_call else x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        return super().train_step((x if self.in_call else x + keras.random.normal((1, 6)), y))


def seeds_after_fit(*, in_call: bool, **compiled: Any) -> tuple[list[list[int]], float, str]:
    """The copies of the global generator's state after a fit, Python's next random number, and the next name."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(5)
    x, y = numbers(65)
    model = Noisy(in_call=in_call)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **compiled)
    model.fit(x, y, epochs=2, verbose=0)
    state = global_state.get_global_attribute("global_seed_generator").state.value
    copies = tf.distribute.get_strategy().experimental_local_results(state)
    return [copy.numpy().tolist() for copy in copies], random.random(), auto_name("SeedGenerator")


@pytest.mark.parametrize("in_call", [True, False])
@pytest.mark.parametrize(
    "compiled", [{}, slow({"jit_compile": True}), slow({"run_eagerly": True}), slow({"steps_per_execution": 2})]
)
def test_draws_without_a_seed_advance_the_global_generator_as_on_one_device(
    in_call: bool, compiled: dict[str, Any]
) -> None:
    (state,), *rest = seeds_after_fit(in_call=in_call, **compiled)
    with mirrored(3).scope():
        assert seeds_after_fit(in_call=in_call, **compiled) == ([state] * 3, *rest)


def test_without_the_handover_draws_without_a_seed_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    take_out(HANDOVER, monkeypatch)
    with mirrored(2).scope(), pytest.raises(ValueError, match="singleton tf.Variables"):
        seeds_after_fit(in_call=False)


def test_without_the_spare_generator_each_replica_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = seeds_after_fit(in_call=False)
    take_out(SEEDS, monkeypatch)
    with mirrored(2).scope():
        assert seeds_after_fit(in_call=False) != (expected[0] * 2, *expected[1:])


def test_a_generator_that_nobody_uses_costs_nothing() -> None:
    """No random number and no second trace, as a function is traced that makes variables."""
    before = random.getstate()
    assert len(in_replicas(lambda: None)) == 2
    assert random.getstate() == before
    assert global_state.get_global_attribute("global_seed_generator") is None


def test_a_generator_that_was_there_before_the_strategy_goes_on() -> None:

    def drawn() -> list[float]:
        return np.asarray(keras.random.normal((2,))).tolist()

    first, _, *rest = [drawn() for _ in range(4)]
    keras.utils.set_random_seed(3)
    assert drawn() == first
    in_replicas(lambda: keras.random.normal((2,)))
    assert [drawn() for _ in range(2)] == rest
