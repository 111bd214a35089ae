"""Epoch span: which steps an epoch takes, where epochs are no whole passes over the samples.

A pass takes every sample once, in the order of `tfdist.order.epoch_order`, where it is called an epoch: usually it is
one. With a number of steps of their own, epochs follow one another over pass after pass, as Keras's do over a dataset
that repeats: nothing is left out at the end of an epoch, and a pass keeps its order and its smaller last batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tfdist.errors import UsageError
from tfdist.order.epoch_order import num_steps


class PassSteps(NamedTuple):
    """Steps of one pass, from `first` to before `last`."""

    number: int
    first: int
    last: int


@dataclass(frozen=True)
class EpochSpan:
    """The steps of every epoch.

    Attributes:
        num_samples: Samples of a pass, at least 1.
        batch_size: Samples of a global batch, at least 1; the last of a pass may be smaller.
        steps_per_epoch: Steps of an epoch, at least 1; None for one pass.
    """

    num_samples: int
    batch_size: int
    steps_per_epoch: int | None = None

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self.steps_per_epoch or self.steps_per_pass

    @property
    def steps_per_pass(self) -> int:
        """Steps of a pass."""
        return num_steps(self.num_samples, self.batch_size)

    def passes(self, epoch: int, first: int = 0, last: int | None = None) -> Iterator[PassSteps]:
        """The steps of passes that some steps of an epoch are, in their order.

        Args:
            epoch: Counted from 0.
            first: The first step of the epoch, counted from 0.
            last: The step after the last one; None for its end.
        """
        begin = epoch * len(self) + first
        end = epoch * len(self) + (len(self) if last is None else last)
        while begin < end:
            number, step = divmod(begin, self.steps_per_pass)
            steps = min(self.steps_per_pass - step, end - begin)
            yield PassSteps(number, step, step + steps)
            begin += steps

    def samples(self, epoch: int, first: int = 0, last: int | None = None) -> int:
        """Returns how many samples some steps of an epoch have; see `passes`."""
        return sum(
            min(steps.last * self.batch_size, self.num_samples) - steps.first * self.batch_size
            for steps in self.passes(epoch, first, last)
        )


def check_passes_in_sequence(steps_per_epoch: int | None) -> None:
    """Checks that epochs are passes, over samples that can only be read in sequence.

    Raises:
        UsageError: They have a number of steps: the next epoch would begin in the middle of a pass.
    """
    if steps_per_epoch is not None:
        raise UsageError(
            f"An epoch of {steps_per_epoch:,} steps begins where the last one ended, and data.train can only be read "
            "from its beginning. Expected data that can be read in any order, or no fit.steps_per_epoch. Received: "
            f"fit.steps_per_epoch {steps_per_epoch}, with data that is read in sequence. Leave it out: an epoch is "
            "then every sample once. Arrays, CSV and text files, images, and local TFRecord files that are not "
            "compressed can be read in any order; tfdist data shard makes such TFRecord files."
        )


@dataclass(frozen=True, order=True)
class Position:
    """The place between two training batches. Of two positions of one run the later one is greater.

    Attributes:
        epoch: The epoch that runs or comes next, from 0.
        step: Batches of it that are done; all of them while its end, with the evaluation, is still to come.

    Raises:
        ValueError: A number is negative.
    """

    epoch: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        if self.epoch < 0 or self.step < 0:
            raise ValueError(f"Expected an epoch and a step of 0 or more. Received: {self.epoch} and {self.step}")

    def total(self, steps_per_epoch: int) -> int:
        """Batches done since the run began."""
        return self.epoch * steps_per_epoch + self.step


START = Position()
"""Before the first batch of a run."""
