"""Weights that a script lays out by `keras.distribution.ModelParallel`: each worker stores a slice along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.global_devices import devices_of_all
from tfdist.keras_repairs.base.warn_once import say_once
from tfdist.keras_repairs.sharded_parameters.axis_weights import AxisParameterShard, BlockParameterShard
from tfdist.keras_repairs.sharded_parameters.shared_slices import SharedAxisSlice, SharedBlock, with_state_axis
from tfdist.keras_repairs.sharded_parameters.tensor_layouts import tensor_parallel
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding import Sharding
from tfdist.sharding.axis_cut import AxisCut, BlockCut
from tfdist.sharding.mesh import AxisName, Mesh, ShardGroup


def model_parallel() -> Any | None:
    """The `ModelParallel` that a script has set, or that of `--tensor`; None without both.

    Raises:
        UnsupportedError: There are both.
    """
    found = keras.distribution.distribution()
    of_option = tensor_parallel(tf.distribute.get_strategy())
    if not isinstance(found, keras.distribution.ModelParallel):
        return of_option
    context = settings_of(tf.distribute.get_strategy()).context
    if context > 1:
        raise UnsupportedError(
            "The script sets a keras.distribution.ModelParallel, by which workers share weights, and --context has "
            f"them share sequences. Expected one of them. Received: --context {context} and {found.device_mesh}. Leave "
            "--context out, or take --context with --shard zero3 where weights do not fit either."
        )
    if of_option is not None:
        raise UnsupportedError(
            "The script sets a keras.distribution.ModelParallel, and --tensor makes another. Expected one of them. "
            f"Received: --tensor {of_option.shares} and {found.device_mesh}. Leave --tensor out to train by the "
            "layouts of the script."
        )
    return found


def lay_out(variable: Any, layer: Any) -> None:
    """Gives a weight that a layer has just made its layout by `--tensor`, in a run with that."""
    found = tensor_parallel(tf.distribute.get_strategy())
    if found is not None:
        found.lay_out(variable, layer)


def laid_out(variable: Any, strategy: tf.distribute.Strategy) -> BlockParameterShard | None:
    """What this worker is to store of a weight, as the distribution in force says; None where it has all of it.

    Args:
        variable: A Keras variable, with its path and shape.
        strategy: Of several replicas.

    Raises:
        UnsupportedError: The distribution, or the layout of the variable, is none that the workers can have.
    """
    distribution = model_parallel()
    if distribution is None:
        return None
    _check_mesh(distribution, strategy)
    axes = _cut_axes(variable, distribution)
    _adopt(distribution, strategy, is_cut=bool(axes))
    shard = settings_of(strategy).shard
    if not axes or shard is None or _is_of_logical_devices(strategy):
        return None
    mesh, shape, worker = shard.layouts, tuple(variable.shape), worker_rank(strategy)
    assert mesh is not None, "adopted"

    def block(axes: Mapping[AxisName, int]) -> tuple[BlockCut, ShardGroup]:
        cut = BlockCut(shape, tuple(axes.values()), tuple(map(mesh.size, axes)))
        return cut, mesh.shard_group([*axes], worker)

    of_state = with_state_axis(axes, shape, mesh) if shard.shares_slices else axes
    parts = [] if of_state == axes else [BlockParameterShard(variable, *block(of_state), strategy)]
    is_of_model = _axes_of(distribution).get(distribution.batch_dim_name, ("data", 1))[0] == "data"
    cut, group = block(axes)
    if [*axes] == ["shard"] and is_of_model:
        slices = AxisCut(shape, axes["shard"], mesh.size("shard"))
        return (SharedAxisSlice if parts else AxisParameterShard)(variable, slices, group, strategy, *parts)
    return (SharedBlock if parts else BlockParameterShard)(variable, cut, group, strategy, *parts)


def check_model_parallel(strategy: tf.distribute.Strategy) -> None:
    """Accepts a `ModelParallel` that all workers of a run can follow.

    Raises:
        UnsupportedError: It is none.
    """
    distribution = model_parallel()
    if distribution is not None:
        _check_mesh(distribution, strategy)
        _adopt(distribution, strategy, is_cut=False)


def _adopt(distribution: Any, strategy: tf.distribute.Strategy, *, is_cut: bool) -> None:
    """Has the workers share weights along the mesh of a distribution, where they do not yet.

    Args:
        distribution: Of this mesh.
        strategy: Of the workers.
        is_cut: Whether a weight is known to be cut. Along the batch's axis alone most scripts cut none.
    """
    settings, axes = settings_of(strategy), _axes_of(distribution)
    if not axes or ([*axes] == [distribution.batch_dim_name] and not is_cut):
        return
    if _is_of_logical_devices(strategy):
        say_once(
            "keras.distribution.ModelParallel: the logical devices of one worker share its memory, so that each has "
            "every weight in full, and its part of every batch. Workers store slices: tfdist train --nproc "
            f"{strategy.num_replicas_in_sync}."
        )
        return
    mesh = Mesh.of(**{name: size for name, size in axes.values()})
    found = settings.shard
    if found is not None and found.layouts == mesh:
        return
    if found is not None and found.layouts is not None:
        raise UnsupportedError(
            "The script's keras.distribution.ModelParallel has another mesh than an earlier one, by which workers "
            f"share weights. Expected one mesh in a run. Received: {mesh}, and before it {found.layouts}. Train every "
            "model of the script by one mesh."
        )
    settings.shard = Sharding("none", mesh, mesh) if found is None else replace(found, layouts=mesh)
    name = "keras.distribution.ModelParallel" if settings.tensor == 1 else f"--tensor {settings.tensor}"
    state = "a part of its optimizer state" if settings.shard.shares_slices else "its optimizer state"
    say_once(
        f"{name}: each weight with a layout along {' or '.join(map(repr, axes))} is stored in slices, one a worker, "
        f"with {state}. Products compute with slices; what cannot reads the full weight, put together. "
        f"The batch is shared out to all {strategy.num_replicas_in_sync} workers."
    )


def _is_of_logical_devices(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether one worker trains on several CPU devices, which are parts of one."""
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    is_one_worker = worker_count(strategy) == 1 < strategy.num_replicas_in_sync
    return is_one_worker and all(device.device_type == "CPU" for device in devices)


def _check_mesh(distribution: Any, strategy: tf.distribute.Strategy) -> None:
    mesh, is_of_workers = distribution.device_mesh, worker_count(strategy) == strategy.num_replicas_in_sync
    if not is_of_workers and not _is_of_logical_devices(strategy):
        raise UnsupportedError(
            "keras.distribution.ModelParallel shards weights between workers with one device each. Received: "
            f"{worker_count(strategy)} workers with {strategy.num_replicas_in_sync} devices in all. Start a worker a "
            f"device: tfdist train --nproc {strategy.num_replicas_in_sync} (on GPUs leave --nproc out)."
        )
    if len(mesh.shape) > 2 or (len(mesh.shape) == 2 and distribution.batch_dim_name != mesh.axis_names[0]):
        raise UnsupportedError(
            "Expected the mesh of keras.distribution.ModelParallel to have one axis, or the axis of the batch and one "
            f"of the model, in this order. Received: {mesh}, whose batch is along {distribution.batch_dim_name!r}."
        )
    expected = devices_of_all(strategy)
    if [str(name).lower() for name in np.ravel(mesh.devices)] != expected:
        raise UnsupportedError(
            "Expected the mesh of keras.distribution.ModelParallel to be of all devices of the run, in the order of "
            f"keras.distribution.list_devices(): {expected}. Received: {[*np.ravel(mesh.devices)]}."
        )


def _axes_of(distribution: Any) -> dict[str, tuple[AxisName, int]]:
    """What the axes of a mesh are to the workers, and their sizes: of those that cut something, in their order.

    An axis of one device cuts nothing: maps of KerasHub name the batch's, too, and run on a mesh of (1, N).
    """
    mesh = distribution.device_mesh
    sizes = {name: size for name, size in zip(mesh.axis_names, mesh.shape, strict=True) if size > 1}
    names: list[AxisName] = ["data", "shard"] if len(sizes) > 1 else ["shard"]
    return {own: (name, sizes[own]) for own, name in zip(sizes, names, strict=False)}


def _cut_axes(variable: Any, distribution: Any) -> dict[AxisName, int]:
    """The axes of a weight that its layout cuts, by the axis of the workers' mesh that each is along, in their order.

    Raises:
        UnsupportedError: The layout does not fit the weight.
    """
    layout = distribution.get_variable_layout(variable)
    laid = () if layout is None else tuple(layout.axes)
    if len(laid) > len(variable.shape):
        raise UnsupportedError(
            f"The layout {laid} of {variable.path} has {len(laid)} axes. Expected at most those of its shape, "
            f"{tuple(variable.shape)}. Mend the pattern of the LayoutMap that matches it."
        )
    axes = _axes_of(distribution)
    twice = next((name for name in axes if laid.count(name) > 1), None)
    if twice is not None:
        raise UnsupportedError(
            f"The layout {laid} of {variable.path} has {twice!r} more than once. Expected each axis of the mesh on "
            "one axis of the weight at most. Mend the pattern of the LayoutMap that matches it."
        )
    return {name: laid.index(own) for own, (name, _) in axes.items() if own in laid}
