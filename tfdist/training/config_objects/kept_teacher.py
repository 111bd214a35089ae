"""A teacher whose outputs `tfdist data predict` has kept: they come with the samples of the training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfdist.config import SourceConfig
from tfdist.config.distill_section import DistillConfig
from tfdist.config.field_errors import FieldError, dotted
from tfdist.data.format_registry import open_source
from tfdist.data.ops.companions import Companion
from tfdist.data.sample_source import SampleSource, SequentialSource
from tfdist.errors import DataError
from tfdist.keras_repairs.distillation.distilled_loss import LABELS, TEACHER
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE, KeptOutputs, identity
from tfdist.training.weights_file import digest_of

KEY = "fit.distill.teacher.outputs"

_BY_NUMBER = "kept outputs are found by the number of each sample"
_LIVE = "or name the teacher itself instead of its outputs"


class KeptTeacher:
    """The kept outputs of a teacher: what it has said of the samples of a training.

    Args:
        section: The section that names the folder of its outputs.
        values: The values of the config that are valid, by dotted key.

    Attributes:
        kept: What the folder has.
        digest: Of its manifest.

    Raises:
        FieldError: There are no such outputs, or they cannot be those of the samples as the training takes them.
    """

    def __init__(self, section: DistillConfig, values: Mapping[str, Any]) -> None:
        assert section.outputs is not None, "the section names a folder"
        self._folder = Path(section.outputs)
        try:
            self.kept = KeptOutputs.read(self._folder)
            self.digest = digest_of(str(self._folder / MANIFEST_FILE))
        except (DataError, OSError) as error:
            raise FieldError(KEY, str(error)) from error
        self._data: SourceConfig | None = values.get("data.train")
        if self._data is not None:
            _check_samples(self._data)

    @property
    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """The shapes of the outputs, with the batch, by name."""
        return {column.name: (None, *column.shape) for column in self.kept.columns}

    def open_companion(self, samples: SampleSource) -> Companion:
        """Opens the outputs of the samples of a source.

        Raises:
            DataError: They are of other samples.
        """
        self._check_same(samples)
        outputs = open_source(self.kept.section(self._folder), KEY)
        single = self.kept.columns[0].name if len(self.kept.columns) == 1 else None

        def join(batch: Any, more: Any) -> Any:
            x, y, *weights = batch
            said, _ = more
            return (x, {LABELS: y, TEACHER: said if single is None else {single: said}}, *weights)

        return Companion(outputs, join)

    def _check_same(self, samples: SampleSource) -> None:
        if isinstance(samples, SequentialSource) and samples.lanes is not None:
            raise DataError(
                f"{KEY}: {_BY_NUMBER}, and data.train can only be read in sequence. Expected files that are read in "
                f"any order: local and not compressed. Make shards of them (`tfdist data shard`), {_LIVE}."
            )
        found, data = samples.fingerprint(), identity(self._data) if self._data is not None else self.kept.data
        same = (len(samples), found.checksum, data) == (self.kept.samples, self.kept.checksum, dict(self.kept.data))
        if not same:
            raise DataError(
                f"{KEY}: {self._folder} has the outputs of {self.kept.model} for other data: "
                f"{self.kept.samples:,} samples, {_shown(self.kept.data)}. Expected those of data.train: {found}, "
                f"{_shown(data)}. Make them with `tfdist data predict MODEL --data CONFIG.yaml:train -o DIR`, with "
                "this config."
            )


def _check_samples(section: SourceConfig) -> None:
    """Checks that the training takes the samples as they lie."""
    if section.augment is not None:
        raise FieldError(
            dotted("data.train", "augment"),
            f"expected none beside {KEY}: a teacher has seen the samples as they lie. Leave it out, {_LIVE}. "
            f"Received: {section.augment}",
        )
    if section.sharding == "none":
        raise FieldError(
            dotted("data.train", "sharding"),
            f"expected auto beside {KEY}: {_BY_NUMBER}, and each worker would count its own. Give all workers the same "
            f"files, {_LIVE}. Received: none",
        )


def _shown(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in data.items() if value is not None)
