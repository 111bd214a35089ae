from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.plan.sources import plan, source
from tfdist.errors import UsageError
from tfdist.plan.memory.memory_json import memory_to_json
from tfdist.plan.memory.memory_plan import MemoryPlan, plan_memory
from tfdist.plan.memory.memory_table import render_memory
from tfdist.plan.memory.step_sizes import StepSizes, TensorSize, WeightSizes
from tfdist.plan.plan_inputs import ClusterSize

KERNEL = TensorSize((100, 10), 4)
BIAS = TensorSize((10,), 4)
NUMBER = TensorSize((), 4)


def sizes(*, cut: str | None = "elements", **more: object) -> StepSizes:
    """A dense layer under Adam."""
    values = {"kernel": KERNEL, "bias": BIAS}
    weights = tuple(WeightSizes(name, value, value.bytes, (value, value)) for name, value in values.items())
    made = StepSizes(weights, 80, cut, "" if cut else "it has one number for all", "Adam", 5000, 0, "", (), 1_000_000)
    return replace(made, **more)  # type: ignore[arg-type]


def planned(
    made: StepSizes, workers: int = 1, replicas: int | None = None, memory: int | None = None, gpu: bool = True
) -> MemoryPlan:
    """A plan of batches of 10 samples of 100 bytes, of which two wait, one is trained on, and one is being read."""
    layout = ClusterSize(workers, replicas or workers)
    return plan_memory(plan(source(40, held_bytes=7000), layout=layout), made, memory, "the device", gpu)


def test_groups_share_less() -> None:
    made = plan(source(40), layout=ClusterSize(4, 4, 2))
    of = {over: plan_memory(made, sizes(), None, "the device", True, over=over).modes for over in ("all", "host", 2)}
    alone = plan_memory(plan(source(40), layout=ClusterSize(2, 2)), sizes(), None, "the device", True).modes
    for mode, in_hosts, in_pairs, of_two in zip(of["all"], of["host"], of[2], alone, strict=True):
        held = (in_hosts.parameters, in_hosts.gradients, in_hosts.optimizer)
        assert held == (in_pairs.parameters, in_pairs.gradients, in_pairs.optimizer)
        assert held == (of_two.parameters, of_two.gradients, of_two.optimizer)
        assert mode.mode == "none" or mode.optimizer < in_hosts.optimizer
    with pytest.raises(UsageError, match="Received: --shard-over 3 with 4 workers"):
        plan_memory(made, sizes(), None, "the device", True, over=3)


def test_one_device_holds_all_of_it() -> None:
    (mode,) = planned(sizes()).modes
    assert (mode.parameters, mode.gradients, mode.optimizer) == (4040, 4040, 8080)
    assert (mode.frozen, mode.activations, mode.process) == (80, 5000, 0)
    assert mode.total == 4040 + 4040 + 8080 + 80 + 5000 + mode.batches
    assert mode.most == mode.total + 7500


@pytest.mark.parametrize(("workers", "part"), [(2, 500 + 5), (3, 340 + 4), (4, 250 + 3)])
def test_workers_hold_parts_of_what_a_mode_cuts(workers: int, part: int) -> None:
    none, zero1, zero2, *_ = planned(sizes(), workers).modes
    assert (none.mode, zero1.mode, zero2.mode) == ("none", "zero1", "zero2")
    assert (none.optimizer, zero1.gradients) == (8080, 4040)
    # The last worker has the largest part. Of three, 100 rows are cut between rows.
    assert (zero1.optimizer, zero2.optimizer, zero2.gradients) == (8 * part, 8 * part, 4 * part)
    assert none.total > zero1.total > zero2.total


def test_an_optimizer_of_whole_variables_leaves_the_largest_with_one_worker() -> None:
    _, zero1, zero2, *_ = planned(sizes(cut="variables"), 4).modes
    assert (zero1.optimizer, zero2.gradients) == (8000, 4000)


def test_of_weights_that_are_cut_one_layer_is_whole_and_small_ones_stay() -> None:
    made = sizes()
    large = TensorSize((200, 100), 4)
    weights = [
        WeightSizes(f"model/{layer}/{name}", value, value.bytes, (value,))
        for layer in ("one", "two")
        for name, value in (("kernel", large), ("bias", BIAS))
    ]
    *_, zero3 = planned(replace(made, weights=tuple(weights)), 4).modes
    assert zero3.mode == "zero3"
    # 20,000 elements are cut, 10 are not; of a gradient and of state everything is.
    assert zero3.parameters == 2 * (20_000 + 40)
    assert zero3.gradients == zero3.optimizer == 2 * (20_000 + 12)
    assert zero3.whole_layer == 2 * 80_000
    again = tuple(replace(weight, recomputed_in=3) for weight in weights)
    assert planned(replace(made, weights=again), 4).modes[-1].whole_layer == (2 + 1) * 80_000


def test_tables_are_shared_by_rows_in_every_mode() -> None:
    table = WeightSizes("embeddings", TensorSize((101, 10), 4), 800, (TensorSize((101, 10), 4),), by_rows=True)
    made = replace(sizes(), weights=(table,))
    assert planned(made).modes[0].parameters == 4040
    for mode in planned(made, 2).modes:
        assert (mode.parameters, mode.optimizer, mode.gradients) == (51 * 40, 51 * 40, 800)
    with pytest.raises(UsageError, match="2 devices each"):
        planned(made, 2, 4)


def test_a_number_beside_a_weight_is_not_cut() -> None:
    made = sizes()
    weight = replace(made.weights[0], slots=(KERNEL, NUMBER))
    _, zero1, *_ = planned(replace(made, weights=(weight,)), 2).modes
    assert zero1.optimizer == 2000 + 4


@pytest.mark.parametrize(
    ("workers", "replicas", "cut", "why"),
    [
        (1, 1, "elements", "--nproc 2"),
        (2, 4, "elements", "these workers have 2 each"),
        (2, 2, None, "it has one number for all"),
    ],
)
def test_why_there_is_one_mode(workers: int, replicas: int, cut: str | None, why: str) -> None:
    made = planned(sizes(cut=cut), workers, replicas)
    assert [mode.mode for mode in made.modes] == ["none"]
    assert why in made.why_one_mode
    assert made.why_one_mode in " ".join(render_memory(made).split())


def test_an_update_begins_while_there_are_activations() -> None:
    none, zero1, *_ = planned(sizes(update=12_000), 2).modes
    assert (none.activations, zero1.activations) == (17_000, 11_000)


def test_on_the_cpu_processes_and_their_input_count_too() -> None:
    (mode,) = planned(sizes(), gpu=False).modes
    assert mode.process == 1_000_000 + 7000
    table = render_memory(planned(sizes(), gpu=False))
    assert "process" in table and "process" not in render_memory(planned(sizes()))


def test_the_first_mode_that_fits_is_named() -> None:
    totals = [mode.most for mode in planned(sizes(), 2).modes]
    for memory, mode, words in (
        (totals[0], "none", "it fits without --shard"),
        (totals[1], "zero1", "the first mode that fits is --shard zero1"),
        (totals[2], "zero2", "the first mode that fits is --shard zero2"),
    ):
        made = planned(sizes(), 2, memory=memory)
        assert made.smallest_mode is not None and made.smallest_mode.mode == mode
        assert words in " ".join(render_memory(made).split())
    least = planned(sizes(), 2).modes[-1].with_state_elsewhere().most
    none = planned(sizes(), 2, memory=least - 1)
    assert none.smallest_mode is None
    assert "the device has" in render_memory(none) and "no mode fits." in render_memory(none)


@pytest.mark.parametrize(
    ("gpu", "offload", "where"), [(True, "optimizer", "the host's memory"), (False, "optimizer:disk", "the disk")]
)
@pytest.mark.parametrize("mode", ["zero1", "zero2"])
def test_where_no_mode_fits_what_to_offload_is_named(gpu: bool, offload: str, where: str, mode: str) -> None:
    # Activations are small beside an optimizer that keeps much.
    made = sizes(activations=10, weights=(WeightSizes("kernel", KERNEL, 4000, (KERNEL,) * 50),))
    modes = {each.mode: each.with_state_elsewhere() for each in planned(made, 2, gpu=gpu).modes}
    found = planned(made, 2, memory=modes[mode].most, gpu=gpu)
    assert found.smallest_mode is None and found.further_offload == offload
    # With zero1 alone nothing else than the state is cut.
    first = "none" if mode == "zero1" else mode
    said = " ".join(render_memory(found).split())
    assert f"The first that does with --offload {offload} is --shard {first}: it leaves 0 B, and keeps" in said
    assert where in said
    assert json.loads(json.dumps(memory_to_json(found)))["smallest_offloaded"] == first
    assert planned(made, 2, memory=modes["zero2"].most - 1000, gpu=gpu).smallest_offloaded is None


def test_nothing_to_offload_is_named_where_nothing_can_be() -> None:
    for made in (planned(sizes(cut=None), 2, memory=5000), planned(sizes(), 1, 2, memory=5000)):
        assert made.further_offload == "none" and made.smallest_offloaded is None
    tables = tuple(replace(weight, by_rows=True) for weight in sizes().weights)
    assert planned(sizes(weights=tables), 2, memory=10**6).smallest_offloaded.mode == "zero1"  # type: ignore[union-attr]


def test_what_cannot_be_told_is_said() -> None:
    untold = planned(sizes(activations=None, why_no_activations="samples have no fixed size"))
    assert "Activations cannot be told: samples have no fixed size." in render_memory(untold)
    assert "they were made, and dropped" in render_memory(planned(sizes(made=True)))
    for unknown in (sizes(uncounted=("While",)), sizes(activations=None, why_no_activations="it is unknown")):
        made = planned(unknown, 2, memory=10**12)
        assert made.smallest_mode is None and "fits" not in render_memory(made).replace("what fits is not said", "")
    uncounted = planned(sizes(uncounted=("While",)))
    assert "Outputs of While have no known size" in " ".join(render_memory(uncounted).split())


def test_the_document() -> None:
    found = json.loads(json.dumps(memory_to_json(planned(sizes(), 2, memory=10**9))))
    assert found["smallest_mode"] == "none"
    assert found["modes"]["zero2"]["optimizer"] == 4040
    assert found["modes"]["none"]["total"] == sum(
        value for name, value in found["modes"]["none"].items() if name not in ("total", "most")
    )


def test_sizes_survive_json() -> None:
    made = sizes(uncounted=("While",))
    assert StepSizes.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_what_is_offloaded_is_not_on_the_device() -> None:
    layout = ClusterSize(2, 2)
    made = plan(source(40, held_bytes=7000), layout=layout)
    plain, *_ = plan_memory(made, sizes(), None, "the device", True).modes
    none, zero1, *_ = plan_memory(made, sizes(), None, "the device", True, "optimizer").modes
    assert (none.optimizer, none.offloaded, none.total) == (0, 8080, plain.total - 8080)
    assert (zero1.optimizer, zero1.offloaded) == (0, 8 * 505)
    # Where devices are the host's processor, only a disk is elsewhere.
    on_cpu = [plan_memory(made, sizes(), None, "a share", False, choice).modes[0].optimizer  # type: ignore[arg-type]
              for choice in ("optimizer", "optimizer:disk")]  # fmt: skip
    assert on_cpu == [8080, 0]
    assert "elsewhere, state" in render_memory(plan_memory(made, sizes(), None, "the device", True, "optimizer"))
    with pytest.raises(UsageError, match="--offload trains one device a worker"):
        plan_memory(plan(source(40), layout=ClusterSize(2, 4)), sizes(), None, "the device", True, "optimizer")
