from __future__ import annotations

from dataclasses import replace

import pytest

from tfdist.errors import UsageError
from tfdist.plan.memory.state_check import SharedMemorySize, Training, check_state_fits
from tfdist.plan.memory.step_sizes import TensorSize, WeightSizes

KERNEL = TensorSize((1024, 256), 4)  # 1 MiB
KIB = 1 << 10


def training(mode: str = "none", workers: int = 1, kind: str | None = "elements") -> Training:
    """One layer of 1 MiB under Adam."""
    weight = WeightSizes("dense/kernel", KERNEL, KERNEL.bytes, (KERNEL, KERNEL))
    return Training("Adam", [weight], kind, mode, workers)  # type: ignore[arg-type]


def memory(size: int | None, workers: int = 1, copies: int = 1) -> SharedMemorySize:
    return SharedMemorySize(None if size is None else size * KIB, "this host", tuple(range(workers)), copies)


@pytest.mark.parametrize(
    ("what", "where"),
    [
        (training(), memory(3072)),
        (training(), memory(None)),
        (training(workers=2), memory(6144, 2)),
        # The other worker is on another host.
        (training(workers=2), memory(3072, 1)),
        (training("zero2", 2), memory(4096, 2)),
        (training("zero3", 2), memory(3072, 2)),
        # Of two workers the one that has the whole variable has its state.
        (training("zero2", 2, kind="variables"), memory(4096, 2)),
    ],
)
def test_what_just_fits_is_not_refused_and_a_byte_less_is(what: Training, where: SharedMemorySize) -> None:
    check_state_fits(what, where)
    if where.size is not None:
        with pytest.raises(UsageError, match="Too little memory"):
            check_state_fits(what, replace(where, size=where.size - 1))


def test_the_error_says_what_is_needed_and_what_is_there() -> None:
    with pytest.raises(UsageError) as raised:
        check_state_fits(training(), memory(2048))
    assert str(raised.value) == (
        "Too little memory with --shard none. Expected at least 3.00 MiB: 1.00 MiB of weights and 2.00 MiB of what "
        "Adam keeps beside them; gradients (1.00 MiB) and activations come on top. Received: this host has 2.00 MiB. "
        "--offload optimizer:disk would fit: it needs 2.00 MiB, and keeps 2.00 MiB on the disk of the run directory. "
        "More workers (--nproc, --workers) share a model out with --shard, or cut its layers with --tensor. A lower "
        "precision, another optimizer or a smaller model need less."
    )


@pytest.mark.parametrize(
    ("size", "remedy"),
    [
        # Of 4 workers: state 8, weights 4, gradients 4; in parts 2, 1 and 1, and a layer with its gradient, 2 each.
        (11000, r"zero1 would fit: it needs 10\.0 MiB, gradients included"),
        (11000, r"on top\. --offload optimizer:disk would fit as well: it needs 8\.00 MiB, and keeps 8\.00 MiB"),
        (10000, "--shard zero2 would fit: it needs 7"),
        # Where each mode holds a whole layer, one that cuts less holds as much without the state.
        (6000, "4 workers, .* --shard zero2 --offload optimizer:disk would fit: it needs 5.00 MiB, and keeps 2.00 MiB"),
        (5000, "No further mode of --shard .* less each. Of what zero3 needs 8.00 MiB .*; --tensor 4 has"),
        (4000, "No further mode of --shard fits on 4 workers, and more of them hold less each. A lower"),
    ],
)
def test_the_first_mode_that_fits_is_named(size: int, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy):
        check_state_fits(training(workers=4), memory(size, 4))


def test_what_layouts_cut_is_cut_in_every_mode() -> None:
    weight = replace(training().weights[0], slices=(1, 2))
    laid_out = replace(training(workers=4), weights=[weight])
    check_state_fits(laid_out, memory(4 * 1536, 4))  # half of 1 MiB, and of 2 of state
    with pytest.raises(UsageError) as raised:
        check_state_fits(laid_out, memory(4 * 1536 - 1, 4))
    assert "4 workers with layouts and --shard none. Expected at least 6.00 MiB" in str(raised.value)
    assert "--shard zero1 would fit: it needs 5.00 MiB, gradients included" in str(raised.value)


def test_devices_of_one_worker_hold_copies() -> None:
    with pytest.raises(UsageError, match=r"for a worker of 2 devices .* at least 6\.00 MiB.* one device each"):
        check_state_fits(training(), memory(5000, copies=2))


def test_what_cannot_be_cut_has_no_other_mode() -> None:
    with pytest.raises(UsageError) as raised:
        check_state_fits(training(workers=2, kind=None), memory(5000, 2))
    assert "--shard zero" not in str(raised.value) and "--offload" not in str(raised.value)


@pytest.mark.parametrize(
    ("host", "remedy"),
    [
        (memory(2048), "--offload optimizer would fit: it needs 2.00 MiB, and keeps 2.00 MiB in the host's memory"),
        (memory(None), "--offload optimizer would fit"),
        (memory(2047), "--offload optimizer:disk would fit: .* on the disk of the run directory"),
    ],
)
def test_a_device_leaves_its_state_to_a_host_that_has_room(host: SharedMemorySize, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy):
        check_state_fits(training(), replace(memory(2048), host=host))


def test_what_is_offloaded_does_not_count() -> None:
    on_disk, in_memory = (replace(training(), offload=choice) for choice in ("optimizer:disk", "optimizer"))  # type: ignore[arg-type]
    device = replace(memory(1024), host=memory(9000))
    check_state_fits(on_disk, memory(1024))
    check_state_fits(in_memory, device)
    with pytest.raises(UsageError, match=r"at least 3\.00 MiB.* --offload optimizer:disk would fit"):
        check_state_fits(in_memory, memory(2048))
    with pytest.raises(UsageError, match=r"none --offload optimizer\. Expected at least 1\.00 MiB: 1\.00 MiB of weig"):
        check_state_fits(in_memory, replace(device, size=1023 * KIB))


@pytest.mark.parametrize(
    ("what", "host", "remedy"),
    [
        # Of 4 workers, 2 on the host: each has 2 MiB of state, or a quarter of that.
        (training(workers=4), memory(4095, 2), r"directory instead\. --shard zero1 would fit: it is then 1\.00 MiB\.$"),
        (training("zero1", 4), memory(1023, 2), "on 4 workers; on more hosts each keeps less"),
        (training(), memory(2047), r"disk of the run directory instead\. Workers on more hosts \(--workers\) share it"),
        (training(kind=None), memory(2047), "instead. A lower precision"),
        # The other workers are on another host.
        (training("zero1", 4), memory(511, 1), r"for a worker .* at least 512 KiB"),
    ],
)
def test_a_host_that_has_too_little_for_the_state_of_its_devices(
    what: Training, host: SharedMemorySize, remedy: str
) -> None:
    offloaded = replace(what, offload="optimizer")
    assert host.size is not None
    for size in (1 << 20, None):
        device = replace(memory(size), host=host)
        with pytest.raises(UsageError, match=remedy):
            check_state_fits(offloaded, device)
        check_state_fits(offloaded, replace(device, host=replace(host, size=host.size + KIB)))
        check_state_fits(offloaded, replace(device, host=replace(host, size=None)))
        check_state_fits(replace(what, offload="optimizer:disk"), device)
        check_state_fits(what, device)


def test_the_error_of_a_host_says_what_is_needed_and_what_is_there() -> None:
    offloaded = replace(training("zero2", 2), offload="optimizer")
    with pytest.raises(UsageError) as raised:
        check_state_fits(offloaded, replace(memory(9000), host=memory(1024, 2)))
    assert str(raised.value) == (
        "Too little memory of the host for 2 workers with --shard zero2 --offload optimizer. Expected at least 2.00 "
        "MiB, which Adam keeps beside the weights. Received: this host has 1.00 MiB. --offload optimizer:disk keeps it "
        "on the disk of the run directory instead. No further mode of --shard fits on 2 workers; on more hosts each "
        "keeps less."
    )


def test_tables_that_workers_share_are_not_offloaded_alone() -> None:
    one = training(workers=2)
    tables = replace(one, weights=[replace(one.weights[0], by_rows=True), one.weights[0]])
    with pytest.raises(UsageError, match="zero1 --offload optimizer:disk would fit"):
        check_state_fits(tables, memory(8000, 2))
