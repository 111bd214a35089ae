"""The callback that prunes a model by magnitude while `fit` trains it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np

from tfdist.errors import RunDirError, UnsupportedError, UsageError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.install import is_installed
from tfdist.keras_repairs.optimizer.masked_updates import apply_masks, mask_updates, unmask_updates
from tfdist.runtime.strategy_settings import settings_of
from tfdist.training.pruning.channel_graph import CannotRemove, ChannelPath, channel_path
from tfdist.training.pruning.masks import MaskGroup
from tfdist.training.pruning.prunable_layers import PrunableLayer, prunable_layers
from tfdist.training.pruning.sparsity import CHANNELS, SCHEDULES, SparsitySchedule, Structure

_log = logging.getLogger("tfdist")

_SPAN = 2 / 3
"""The part of the training in which the sparsity grows, where nothing else is said; the rest mends what it has done."""

_CHANGES = 20
"""The number of times that masks change in that part of the training."""


@dataclass(frozen=True)
class LayerSparsity:
    """The sparsity of a layer.

    Attributes:
        name: Its name.
        shape: That of its kernel.
        pruned: How many weights of the kernel are pruned.
        weights: How many it has.
    """

    name: str
    shape: tuple[int, ...]
    pruned: int
    weights: int


class Pruning(keras.callbacks.Callback):
    """Prunes the smallest weights of a model, more and more of them, while `fit` trains the others.

    Give it to `fit` on every worker, after all other callbacks. A pruned weight is zero from then on, after every
    update, also in averages of weights; its gradients do not count where gradients are clipped. Masks are the same on
    all replicas, depend on the weights alone, and are part of tfdist's checkpoints. The model stays a plain Keras
    model: what it saves holds zeros, and nothing of tfdist.

    Steps are counted from the start of the training: over all epochs of a `fit`, from its `initial_epoch` on and over
    several `fit`s with one callback. With `compile(steps_per_execution=n)` masks change between two executions. The
    logs of an epoch get `sparsity`, the share of the weights of the pruned layers that is gone.

    Args:
        sparsity: The share of the weights, or of the channels, of each layer that is pruned in the end, between 0 and
            1; None for that of a pattern.
        structure: `"unstructured"`; `"channels"`, the outputs of Dense and Conv layers that can be removed afterwards;
            or a pattern such as `"2:4"`, of which 2 of each 4 weights along the inputs stay.
        schedule: `"polynomial"`, from `initial_sparsity` to `sparsity`, fast at first (Zhu and Gupta, 2017), or
            `"constant"`, at once.
        begin: After how many steps pruning begins.
        end: After how many steps the sparsity is reached; None for two thirds of what is left after `begin`.
        every: Steps from one change of the masks to the next; None for a twentieth of the way.
        initial_sparsity: The share that is pruned at `begin`.
        power: The exponent of the polynomial.
        layers: Names of the layers to prune; None for all that can be, with `"channels"` all whose channels can be
            removed.
        skip: Names of layers to leave as they are.

    Raises:
        UsageError: An argument is out of range; or later, when `fit` begins, a layer is unknown or cannot be pruned.

    Example:
        model.fit(x, y, epochs=10, callbacks=[tfdist.Pruning(0.8, begin=100, end=2000)])
    """

    ignores_batches = True
    """Except those after `steps_until_due` steps."""

    changes_weights = True
    """On every worker alike, and so on every worker."""

    kept_attributes = ("state",)

    def __init__(
        self,
        sparsity: float | None = None,
        structure: str = "unstructured",
        *,
        schedule: str = "polynomial",
        begin: int = 0,
        end: int | None = None,
        every: int | None = None,
        initial_sparsity: float = 0.0,
        power: float = 3.0,
        layers: Sequence[str] | None = None,
        skip: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._structure = Structure.of(structure)
        self._sparsity = self._structure.sparsity(sparsity)
        self._options: dict[str, Any] = {"initial": initial_sparsity, "power": power, "kind": schedule}
        self._begin, self._end, self._every = begin, end, every
        # What is wrong is said here, and not when the data is read; the rest depends on the length of the training.
        SparsitySchedule(self._sparsity, begin, begin if end is None else end, every or 1, **self._options)
        if every is not None:
            SparsitySchedule(self._sparsity, 0, 0, every)
        self._names, self._skip = layers, skip
        self._schedule: SparsitySchedule | None = None
        self._groups: list[MaskGroup] = []
        self._pruned_model: keras.Model | None = None
        self._done: int | None = None
        self._changed_at: int | None = None
        self._epoch_start: int | None = None
        self._left: dict[str, str] = {}

    @property
    def groups(self) -> Sequence[MaskGroup]:
        """The pruned layers with their masks, from the begin of `fit` on."""
        return self._groups

    @property
    def left_out(self) -> Mapping[str, str]:
        """Name of a layer whose channels cannot be removed -> why."""
        return self._left

    def layer_sparsity(self) -> list[LayerSparsity]:
        """Returns how sparse each pruned layer is, by its mask."""
        return [
            LayerSparsity(group.pruned.name, tuple(mask.shape), int(mask.size - np.count_nonzero(mask)), mask.size)
            for group in self._groups
            for mask in (group.mask,)
        ]

    def steps_until_due(self) -> float:
        """After how many steps this callback wants to be called; the same on all workers."""
        assert self._schedule is not None, "on_train_begin comes first"
        done = self._done or 0
        due = self._schedule.next_change(done)
        return float("inf") if due is None else due - done

    @property
    def state(self) -> dict[str, Any]:
        """The state that a checkpoint holds: how far it is, its schedule, and the masks as bits."""
        if self._schedule is None:
            return {}
        masks = {group.pruned.name: np.packbits(group.mask) for group in self._groups}
        schedule = asdict(self._schedule)
        return {"done": self._done or 0, "changed_at": self._changed_at, "schedule": schedule, "masks": masks}

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        if not state:
            return
        names = [group.pruned.name for group in self._groups]
        if list(state["masks"]) != names:
            raise RunDirError(
                f"The checkpoint is of a training that pruned other layers: {', '.join(state['masks'])}. Expected the "
                f"same pruning. Received: {', '.join(names)}. Train with that one, or choose another run directory."
            )
        for group in self._groups:
            shape = group.mask.shape
            bits = np.unpackbits(state["masks"][group.pruned.name], count=int(np.prod(shape)))
            group.set_mask(bits.astype(bool).reshape(shape))
        self._done, self._changed_at = state["done"], state["changed_at"]
        # As the training began with: another number of epochs must not change what is done already.
        self._schedule = SparsitySchedule(**state["schedule"])
        self._apply()

    def on_train_begin(self, logs: Any = None) -> None:
        model = self.model
        self._check_strategy(model)
        if self._pruned_model is not model:
            self._groups = self._make_groups(model)
            self._pruned_model, self._done, self._changed_at, self._schedule = model, None, None, None
        if self._schedule is None:
            self._schedule = self._make_schedule()
        self._epoch_start = None
        mask_updates(model, [masked for group in self._groups for masked in group.masked])
        # What was traced before knows no masks.
        model.make_train_function(force=True)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._done is None:
            # Of a training that goes on, as after BackupAndRestore: the zeros among its weights are its masks.
            self._done = epoch * (self._steps or 0)
        self._epoch_start = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if fit_state(self.model).unreported_steps():
            return
        if self._done is None:
            self._done = 0
        if self._epoch_start is None:
            self._epoch_start = self._done - batch
        self._change_if_due()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self._epoch_start is not None, "on_train_batch_begin comes first"
        # The last execution of an epoch may have fewer steps than Keras says.
        last = batch if self._steps is None else min(batch, self._steps - 1)
        self._done = self._epoch_start + last + 1 + fit_state(self.model).unreported_steps()
        self._change_if_due()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            layers = self.layer_sparsity()
            logs["sparsity"] = sum(each.pruned for each in layers) / sum(each.weights for each in layers)

    def on_train_end(self, logs: Any = None) -> None:
        # Others may have brought back weights from before.
        self._apply()
        unmask_updates(self.model)
        self.model.train_function = None
        schedule, done = self._schedule, self._done or 0
        if schedule is not None and done < schedule.end and schedule.kind != "constant":
            at = schedule.last_change(done)
            _log.warning(
                "Pruning has not reached its end: the training ended after %d steps, and its sparsity of %g is reached "
                "after %d. It is %g now. Train longer, or give Pruning an earlier end.",
                done,
                schedule.sparsity,
                schedule.end,
                0.0 if at is None else schedule.at(at),
            )

    @property
    def _steps(self) -> int | None:
        """Steps of an epoch; None where Keras does not know them."""
        steps: int | None = (self.params or {}).get("steps")
        return steps

    def _change_if_due(self) -> None:
        assert self._schedule is not None and self._done is not None, "on_train_begin comes first"
        due = self._schedule.last_change(self._done)
        if due is None or due == self._changed_at:
            return
        sparsity = self._schedule.at(due)
        for group in self._groups:
            group.prune(sparsity)
        self._changed_at = due
        self._apply()

    def _apply(self) -> None:
        apply_masks(self.model, [masked for group in self._groups for masked in group.masked])

    def _make_groups(self, model: keras.Model) -> list[MaskGroup]:
        if not model.built:
            raise UsageError(
                f"The model {model.name} has no weights yet that could be pruned. Expected a model that is built when "
                "fit begins. Call it once, or give it an Input."
            )
        found = prunable_layers(model, self._structure, self._names, self._skip)
        if self._structure.name != CHANNELS:
            return [MaskGroup(each, self._structure) for each in found]
        paths = self._paths(model, found)
        return [MaskGroup(each, self._structure, paths.get(each.name)) for each in found if self._takes(each, paths)]

    def _paths(self, model: keras.Model, found: Sequence[PrunableLayer]) -> dict[str, ChannelPath]:
        """Returns where the channels of the layers go, where that can be followed."""
        paths: dict[str, ChannelPath] = {}
        self._left = {}
        for each in found:
            try:
                paths[each.name] = channel_path(model, each.layer)
            except CannotRemove as reason:
                self._left[each.name] = str(reason)
        if not paths and self._names is None:
            reasons = "; ".join(f"{name} {reason}" for name, reason in self._left.items())
            raise UsageError(
                f"The model {model.name} has no channels that could be removed: {reasons}. Expected Dense or Conv "
                "layers whose channels go through elementwise layers, BatchNormalization, pooling and Flatten to "
                "others. Name the layers of which channels are to be zero all the same, or prune another structure."
            )
        return paths

    def _takes(self, each: PrunableLayer, paths: Mapping[str, ChannelPath]) -> bool:
        return self._names is not None or each.name in paths

    def _make_schedule(self) -> SparsitySchedule:
        begin, end = self._begin, self._end
        if end is None and self._options["kind"] == SCHEDULES[1]:
            end = begin
        if end is None:
            if self._steps is None:
                raise UsageError(
                    "The number of steps of an epoch is not known before its end, and so not when pruning should be "
                    "over. Expected it to be said. Give Pruning an end, in steps."
                )
            total = self._steps * int(self.params["epochs"])
            end = begin + max(0, int((total - begin) * _SPAN))
        every = self._every or max(1, (end - begin) // _CHANGES)
        return SparsitySchedule(self._sparsity, begin, end, every, **self._options)

    def _check_strategy(self, model: keras.Model) -> None:
        strategy = model.distribute_strategy
        if strategy.num_replicas_in_sync > 1 and not is_installed():
            raise UnsupportedError(
                "Pruning on several replicas needs tfdist's strategy: Keras's own updates leave the replicas. Start "
                "the script by `tfdist train`, or use strategy = tfdist.strategy()."
            )
        if settings_of(strategy).offload is not None:
            raise UnsupportedError(
                "Pruning masks the optimizer's state where the weights are, and --offload keeps it elsewhere. Leave "
                "--offload out; where a config has it, by --set offload=none."
            )
        if settings_of(strategy).shard is not None:
            raise UnsupportedError(
                "Pruning needs all of the weights on every worker, and --shard gives each a part of them. Leave "
                "--shard out; where a config has it, by --set shard=none."
            )
