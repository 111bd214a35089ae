"""Sums inside of a step that XLA compiles: what XLA is given for them. `tests/workers/test_xla_step.py` runs them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfdist.runtime.strategy_settings import StrategySettings
from tfdist.runtime.transport.compiled_sums import CannotBeCompiled, CompiledSums


def program(function: Callable[..., Any], *tensors: tf.Tensor) -> str:
    """The program that TensorFlow translates a function to for XLA; nothing of it runs."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    text: str = compiled.experimental_get_compiler_ir(*tensors)(stage="hlo", device_name="/device:CPU:0")
    return text


def summed_shapes(text: str) -> list[str]:
    """The shapes of what is summed over workers, and among which."""
    found = re.findall(r"= (\S+?)\{0\} all-reduce\(.*replica_groups=(\S+),", text)
    return [f"{shape} {group}" for shape, group in found]


def test_every_tensor_has_a_sum_of_its_own_which_xla_joins() -> None:
    sums = CompiledSums(1, 3, "nccl")
    text = program(lambda x, y: sums.sum([x, y]), tf.ones([2, 3]), tf.ones([4], tf.int64))
    assert summed_shapes(text) == ["f32[6] {{0,1,2}}", "s64[4] {{0,1,2}}"]


def test_they_are_sent_in_another_dtype() -> None:
    sums = CompiledSums(0, 2, "nccl")
    text = program(lambda x: sums.sum([x], tf.bfloat16), tf.ones([5]))
    assert summed_shapes(text) == ["bf16[5] {{0,1}}"]
    assert "f32[5]{0} convert" in text


def test_rows_are_gathered_bit_by_bit_as_a_sum() -> None:
    sums = CompiledSums(1, 3, "nccl")
    assert summed_shapes(program(sums.gather, tf.ones([2, 4]))) == ["s32[24] {{0,1,2}}"]


def test_slices_of_all_workers_are_gathered() -> None:
    sums = CompiledSums(1, 2, "nccl")

    def total(values: tf.Tensor, indices: tf.Tensor) -> Any:
        (found,) = sums.sum([tf.IndexedSlices(values, indices, tf.constant([9, 4]))])
        assert isinstance(found, tf.IndexedSlices)
        return found.values, found.indices

    text = program(total, tf.ones([3, 4]), tf.constant([0, 0, 7]))
    assert sorted(summed_shapes(text)) == ["s32[24] {{0,1}}", "s32[6] {{0,1}}"]


def test_what_has_no_sum_cannot_be_compiled() -> None:
    sums = CompiledSums(0, 2, "nccl")
    with pytest.raises(CannotBeCompiled, match="complex64"):
        program(lambda x: sums.sum([x]), tf.ones([2], tf.complex64))


def test_they_are_the_sums_of_a_strategy_while_a_step_is_traced() -> None:
    settings, sums = StrategySettings(), CompiledSums(0, 2, "nccl")
    with pytest.raises(KeyError), sums.installed(settings):
        assert settings.sums is sums and settings.meter_of_sums is None
        raise KeyError
    assert settings.sums is None
