from __future__ import annotations

import typing
from typing import Any, get_args

import pytest

from tfdist.config import RunConfig
from tfdist.errors import UsageError
from tfdist.launch import worker_options
from tfdist.sharding import Mesh, Sharding, ShardMode, sharding_of
from tfdist.sharding.sharding_mode import CUT, Holding, check_devices

FOUR = Mesh.of(shard=4)


def test_each_mode_cuts_what_the_one_before_it_cuts_and_more() -> None:
    assert set(get_args(ShardMode)) <= set(CUT)
    cut = list(CUT.values())
    assert all(less < more for less, more in zip(cut, cut[1:], strict=False))
    assert cut[-1] == set(get_args(Holding))


@pytest.mark.parametrize(
    ("mode", "parameters", "gradients", "optimizer"),
    [("zero1", False, False, True), ("zero2", False, True, True), ("zero3", True, True, True)],
)
def test_what_is_cut(mode: Any, parameters: bool, gradients: bool, optimizer: bool) -> None:
    sharding = Sharding(mode, FOUR)
    assert [sharding.cuts(holding) for holding in get_args(Holding)] == [parameters, gradients, optimizer]


@pytest.mark.parametrize("mode", ["none", "zero4", ""])
def test_no_mode(mode: Any) -> None:
    with pytest.raises(UsageError, match=f"A sharding's mode is one of zero1, zero2, zero3. Received: '{mode}'"):
        Sharding(mode, FOUR)


def test_layouts_cut_parameters_in_every_mode() -> None:
    layouts = Mesh.of(data=2, shard=2)
    beside = [Sharding(mode, FOUR, layouts) for mode in get_args(ShardMode)]
    assert all(sharding.cuts_parameters for sharding in beside)
    assert [sharding.cuts("parameters") for sharding in beside] == [False, False, False, True]
    assert [sharding.shares_slices for sharding in beside] == [False, True, True, True]
    assert not Sharding("zero2", layouts, layouts).shares_slices, "groups of --shard-over have a copy each"
    assert not Sharding("zero2", FOUR).cuts_parameters and not Sharding("zero2", FOUR).shares_slices


def test_a_run_shards_over_all_of_its_workers() -> None:
    assert sharding_of("zero1", "all", ["h1", "h2", "h3", "h4"]) == Sharding("zero1", FOUR)
    assert sharding_of("zero1", "all", ["h1"]) is None
    assert sharding_of("none", "all", ["h1"] * 4) is None


def test_groups_of_a_run_share_a_copy_each() -> None:
    sharding = sharding_of("zero1", "host", ["h1", "h1", "h2", "h2"])
    assert sharding == Sharding("zero1", Mesh.of(data=2, shard=2))
    assert sharding.shares == 2
    assert [sharding.share(worker) for worker in range(4)] == [0, 1, 0, 1]


def test_in_words() -> None:
    assert str(Sharding("zero2", FOUR)) == "zero2 over 4 workers"
    assert str(Sharding("zero1", Mesh.of(data=2, shard=4))) == "zero1 over 4 workers in each of 2 groups"


def test_one_device_a_worker() -> None:
    check_devices("none", 2, "--logical-devices 2")
    check_devices("zero1", 1, "one GPU")
    with pytest.raises(UsageError) as raised:
        check_devices("zero1", 2, "--logical-devices 2")
    assert str(raised.value) == (
        "--shard trains one device a worker: --nproc N gives a GPU to each. Received: --shard zero1 with "
        "--logical-devices 2"
    )


def test_a_config_and_the_command_line_have_the_same_modes() -> None:
    """A config stands on the floor of the modes, and so says them once more."""
    assert typing.get_type_hints(RunConfig)["shard"] == ShardMode == worker_options.ShardMode
