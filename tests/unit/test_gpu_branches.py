"""Every branch of the package on "is it on a GPU" and "is it NCCL" names a test that takes it on CPUs.

A branch that GPUs alone take would run for the first time where somebody has GPUs. So whoever writes one asks
`StrategySettings` (`on_gpus`, `nccl`, `between_devices`), which say yes where GPUs are emulated, too, and adds a line
here with the test that takes the branch, or says why it decides nothing of what is computed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfdist.errors

ROOT = Path(tfdist.errors.__file__).parents[1]

XLA_STEP = "tests/workers/test_xla_step.py::test_numbers_of_one_device_that_is_compiled"
ROWS = "tests/workers/test_nccl_paths.py::test_numbers_of_one_worker"
CALLS = "tests/workers/test_collectives.py::test_each_worker_gets_what_it_should"
SUMS = "tests/workers/test_all_reduce.py::test_sums_by_the_paths_of_nccl"
PLACES = "tests/unit/runtime/collectives/test_placement.py"
DEVICES = "tests/unit/runtime/test_devices.py::test_what_tensorflow_is_told_of_gpus"
CHOICE = "tests/unit/runtime/test_strategy.py::test_choice"
NO_NCCL = "tests/unit/runtime/test_strategy.py::test_nccl_without_a_gpu_for_each_replica"
SHM = "tests/unit/runtime/test_strategy.py::test_gpus_do_not_send_through_the_memory_of_the_host"
AUTO = "tests/devices/test_xla.py::test_auto_is_on_several_replicas_what_it_is_on_one_device"
VARIANTS = "tests/unit/verify/replicas/test_variants.py"

TAKEN = {
    "data/pipeline.py::replica_batches": "tests/workers/test_xla_step.py::test_batches_of_all_kinds_of_data",
    "keras_repairs/base/strategy_reductions.py::repaired": CALLS,
    "keras_repairs/base/variables.py::run": XLA_STEP,
    "keras_repairs/coupling/gather_rows.py::dense_rows": XLA_STEP,
    "keras_repairs/coupling/gathered_batch.py::_places": XLA_STEP,
    "keras_repairs/inputs/data_adapters.py::distribute": XLA_STEP,
    "keras_repairs/loop/compilation.py::_is_on_gpus": AUTO,
    "keras_repairs/loop/trainer.py::of_piece": XLA_STEP,
    "keras_repairs/loop/xla_step.py::__call__": XLA_STEP,
    "keras_repairs/loop/xla_step.py::_function": XLA_STEP,
    "keras_repairs/loop/xla_step.py::may_be_compiled": XLA_STEP,
    "keras_repairs/optimizer/gradient_accumulation.py::apply": XLA_STEP,
    "keras_repairs/sharded_embeddings/row_lookup.py::_checked": ROWS,
    "keras_repairs/sharded_embeddings/slice_exchange.py::_exchanged": ROWS,
    "keras_repairs/sharded_parameters/gathered_reads.py::is_sent_ahead": ROWS,
    "keras_repairs/tensor_parallel/keras_products.py::checked":
        "tests/workers/test_model_parallel.py::test_numbers_of_one_device",
    "launch/gpus/usable_gpus.py::parse": ROWS,
    "launch/worker/kernel_choice.py::choose_kernels": "tests/unit/launch/worker/test_kernel_choice.py::test_auto",
    "ray/job/placement.py::bundle": "tests/unit/ray/job/test_placement.py::test_demand",
    "runtime/batches/replica_batches.py::per_replica": ROWS,
    "runtime/collectives/communicator.py::__init__": f"{PLACES}::test_workers_agree_on_the_way",
    "runtime/collectives/communicator.py::_carried": CALLS,
    "runtime/collectives/communicator.py::_laid": CALLS,
    "runtime/collectives/communicator.py::_on_device": CALLS,
    "runtime/collectives/strategy_communicator.py::communicator_of": CALLS,
    "runtime/devices.py::_set_up_gpus": DEVICES,
    "runtime/devices.py::apply": DEVICES,
    "runtime/devices.py::used_memory": "tests/unit/runtime/test_devices.py::test_the_fullest_gpu_counts",
    "runtime/strategy.py::_check_memory_serves": SHM,
    "runtime/strategy.py::_check_nccl_serves": NO_NCCL,
    "runtime/strategy.py::choose": CHOICE,
    "runtime/strategy.py::make": ROWS,
    "runtime/strategy_settings.py::meter_of_sums": XLA_STEP,
    "runtime/strategy_settings.py::on_gpus": ROWS,
    "runtime/transport/compiled_sums.py::_key": XLA_STEP,
    "runtime/transport/shard_collectives.py::_gathered": XLA_STEP,
    "runtime/transport/shard_collectives.py::_sum_in_group": ROWS,
    "runtime/transport/shard_collectives.py::sum_small": ROWS,
    "runtime/transport/replica_sums.py::_sum_by_strategy": SUMS,
    "runtime/transport/replica_sums.py::sum_over_replicas": ROWS,
    "runtime/transport/shard_groups.py::_memory_of": ROWS,
    "runtime/transport/sum_setup.py::_engine_between_devices": ROWS,
    "runtime/transport/sum_setup.py::set_up_sums": ROWS,
    "runtime/transport/worker_sums.py::sum_over_workers": ROWS,
    "selftest/layouts.py::check_collectives": "tests/unit/selftest/test_layouts.py::test_what_is_refused",
    "training/session/worker_context.py::idle_options": (
        "tests/unit/training/session/test_worker_context.py::test_what_has_no_effect_is_said"
    ),
    "training/session/session_setup.py::_make_strategy": ROWS,
    "verify/replicas/variants.py::_communication": f"{VARIANTS}::test_which_runs",
}
"""By the branch, a file of the package and a function of it: the test that takes it on CPUs."""

DECIDES_NOTHING = {
    "cluster/slurm.py::_repeats": "reads a variable of Slurm's",
    "doctor/machine/machine_checks.py::_nccl": "tells NCCL's version",
    "doctor/machine/machine_checks.py::check_tensorflow": "tells what TensorFlow finds",
    "keras_repairs/forward/empty_batches.py::_is_of_onednn": "leaves operations of no row on GPUs to their library",
    "keras_repairs/forward/strided_convolutions.py::_jumps": "leaves a gradient on GPUs to their library",
    "keras_repairs/sharded_parameters/gathered_reads.py::gradient": "sums that are put off, not those of a strategy",
    "keras_repairs/optimizer/variable_updates.py::_is_compiled": "leaves Keras's operations as they are on GPUs",
    "keras_repairs/tensor_parallel/keras_activations.py::_compilable": "leaves Keras's operations as they are on GPUs",
    "launch/environment.py::choose_cores_here": "which cores a worker has",
    "launch/environment.py::choose_kernels_here": "which kernels computations on CPUs have",
    "launch/environment.py::crowding": "advice in words",
    "multihost/slurm/submission.py::submitted_text": "counts in words",
    "plan/fit/fit_plan_table.py::_memory": "names what has the memory",
    "ray/job/actors.py::gpus": "asks Ray for the GPUs of a node",
    "ray/job/placement.py::resources_text": "counts in words",
    "ray/train/trainer.py::_with_environment": "how the C library gives memory back",
    "runtime/devices.py::replica_kernels": "names kernels",
    "runtime/tensorflow_probe.py::main": "tells what TensorFlow finds",
    "selftest/layouts.py::_sharing": "names the collectives of rows",
    "selftest/layouts.py::layouts": "which rows are run",
    "selftest/matrix/device_rows.py::local_devices": "which devices are tried",
    "selftest/selftest_report.py::_gpu_facts": "tells NCCL's version",
    "selftest/selftest.py::run_selftest": "which rows are run",
    "training/config_run/run_summary.py::_waiting": "advice in words",
    "training/probes/recorder.py::write": "counts GPUs for a report",
    "training/rehearsal/fit_planner.py::peak_memory": "tells how much memory was used",
    "training/session/session_setup.py::memory_of": "tells how much memory there is",
    "training/session/session_description.py::describe": "names devices",
    "training/session/session_setup.py::_set_up_recording": "counts GPUs",
    "training/session/session_setup.py::_warn_of_idle_options": "hands on what devices are",
}
"""Branches that change no number and start no exchange, with what they do."""

_ASKED = {"between_devices", "emulates_nccl", "has_gpu", "is_gpu", "nccl", "on_gpu", "on_gpus", "computes_on_gpus"}
_TEXT = re.compile(r"/?((physical_)?device:)?gpu:?[0-9*]*|nccl", re.IGNORECASE)


def branches_of(source: str) -> Iterator[str]:
    """The functions of a module that ask whether something is on a GPU, is NCCL's, or is summed by tfdist itself."""
    if re.search("gpu|nccl|sums|between_devices", source, re.IGNORECASE):
        yield from dict.fromkeys(_branches(ast.parse(source), ""))


def _branches(node: ast.AST, function: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if _hides_gpus(child):
            continue
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if function and _asks(child):
            yield function
        yield from _branches(child, child.name if is_function else function)


def _asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        return isinstance(node.ctx, ast.Load) and str(_name(node)).lstrip("_") in _ASKED
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _TEXT.fullmatch(node.value) is not None
    if isinstance(node, ast.Compare):
        return _name(node.left) == "sums" and isinstance(node.ops[0], ast.Is | ast.IsNot)
    if isinstance(node, ast.Call):
        return _name(node.func) == "isinstance" and _name(node.args[0]) == "sums"
    return False


def _hides_gpus(node: ast.AST) -> bool:
    """Whether it is `set_visible_devices([], "GPU")`, after which there is nothing to ask."""
    if not (isinstance(node, ast.Call) and _name(node.func) == "set_visible_devices"):
        return False
    return isinstance(node.args[0], ast.List) and not node.args[0].elts


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def found() -> set[str]:
    return {
        f"{path.relative_to(ROOT / 'tfdist')}::{name}"
        for path in (ROOT / "tfdist").rglob("*.py")
        for name in branches_of(path.read_text())
    }


def test_every_branch_on_gpus_names_a_test_that_takes_it_on_cpus() -> None:
    known = {*TAKEN, *DECIDES_NOTHING}
    assert sorted(found() - known) == [], "name a test that takes the branch without a GPU"
    assert sorted(known - found()) == [], "these branches are gone"
    assert not set(TAKEN) & set(DECIDES_NOTHING)


@pytest.mark.parametrize("test", sorted(set(TAKEN.values())))
def test_the_tests_are_there(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    "line",
    [
        'return device.startswith("/device:GPU")',
        'return tf.config.list_physical_devices("GPU")',
        'return choice.communication == "nccl"',
        "return 1 if settings.nccl else 2",
        "return settings.sums is None",
        "return isinstance(settings.sums, Ring)",
        "return [each for each in values if on_gpus]",
        'return lambda device: "gpu:0" in device',
    ],
)
def test_a_new_branch_is_found(line: str) -> None:
    assert list(branches_of(f"def new():\n    {line}\n")) == ["new"]


def test_what_only_speaks_of_gpus_is_none() -> None:
    source = '''
def said():
    """Of GPUs, over NCCL."""
    tf.config.set_visible_devices([], "GPU")
    raise UsageError("--communication nccl needs a GPU.")
'''
    assert list(branches_of(source)) == []
