"""The remedy for steps that wait for data: the one change that would help most. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfdist.training.config_run.input_place import Place
from tfdist.training.config_run.input_wait import InputWait

_SATURATED = 0.75
"""The share of busy cores from which the input lacks cores."""


@dataclass(frozen=True)
class InputDescription:
    """The known facts about the input of a training.

    Attributes:
        format: As in the config.
        decodes: Whether encoded images are decoded.
        python: What runs Python code for each sample, such as `parse`; empty where nothing does.
        function: The user's function that each sample goes through, `parse` or `augment`; empty without one.
        cores: Cores that this process may use.
        place: Where the samples come from.
        gpus: GPUs of this worker.
    """

    format: str
    decodes: bool
    python: str
    function: str
    cores: int
    place: Place = Place.DISK
    gpus: int = 0


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
        if wait.free >= (1 - _SATURATED) * source.cores:
            return _where_cores_are_idle(source, cores)
        cores = f"This worker has {wait.busy:.1f} of {source.cores} cores, and other processes keep the rest busy"
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


_SHARDS = "`tfdist data shard` makes a few large files of an image folder"
_SLOW: Mapping[Place, str] = {
    Place.DISK: "so the disk is too slow for these files, of which memory holds only a part: put them on a faster one",
    Place.NETWORK: "so the files come too slowly from where they are, most likely over the network: copy them to a "
    "disk of each host",
    Place.REMOTE: "so the files come too slowly over the network: copy them to a disk of each host, or make more files "
    "of them, of which up to data.train.interleave are read at the same time",
}


def _where_cores_are_idle(source: InputDescription, cores: str) -> str:
    """Returns what helps where something is waited for that is no computation, or that one thread does alone."""
    if source.place in _SLOW:
        also = f"; {_SHARDS}" if source.format == "images" else ""
        return f"{cores}, {_SLOW[source.place]}{also}."
    if source.format == "images":
        return f"{cores}, and the images fit into memory: it is opening a file for each that takes the time. {_SHARDS}."
    where, work = "The samples are in memory", "putting batches together"
    if source.place is Place.KEPT:
        where, work = "The files fit into memory, which keeps them", "reading records and putting batches together"
    share = f"; with --nproc {source.gpus} each GPU has a worker of its own for it" if source.gpus > 1 else ""
    return (
        f"{where}, and {cores}: what takes the time is {work}, in one thread of each worker. Larger batches "
        f"(data.batch_size) cost less a sample{share}."
    )
