"""The remedy for steps that wait for data: the one change that would help most. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.training.config_run.input_wait import InputWait

_SATURATED = 0.75
"""The share of busy cores from which the input lacks cores."""


@dataclass(frozen=True)
class InputDescription:
    """What is known of the input of a training.

    Attributes:
        format: As in the config.
        decodes: Whether encoded images are decoded.
        python: What runs Python code for each sample, such as `parse`; empty where nothing does.
        function: The user's function that each sample goes through, `parse` or `augment`; empty without one.
        cores: Cores that this process may use.
    """

    format: str
    decodes: bool
    python: str
    function: str
    cores: int


def remedy(source: InputDescription, wait: InputWait) -> str:
    """The one change that would help most, in a sentence."""
    if source.python:
        return (
            f"{source.python} runs Python code for each sample, one at a time: write it in TensorFlow's operations, "
            "which run on all cores."
        )
    if source.format in ("csv", "text"):
        return (
            "Lines are parsed by Python, one at a time: make TFRecord files of them with `tfdist data shard`, which "
            "TensorFlow parses on all cores."
        )
    if source.format == "generator":
        return (
            f"{source.function} makes samples one at a time, in Python: give it lanes, which the workers share, or "
            "write what it makes to TFRecord files once."
        )
    cores = f"{wait.busy:.1f} of {source.cores} cores are busy"
    if wait.busy < _SATURATED * source.cores:
        also = "; of an image folder, `tfdist data shard` makes a few large files" if source.format == "images" else ""
        return f"{cores}, so the files come too slowly: put them on a faster disk, or on one of this machine{also}."
    if source.function:
        return (
            f"{cores}: give the run more of them, or do in the files once what {source.function} does alike in every "
            "epoch."
        )
    if source.decodes:
        return (
            f"{cores}, decoding among others: store the images in about the size that they are resized to, or give "
            "the run more cores."
        )
    return f"{cores}: give the run more of them."
