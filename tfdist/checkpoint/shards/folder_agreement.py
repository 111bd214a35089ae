"""Finds out which workers reach a folder of the chief's: not those of a host with a disk of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import tensorflow as tf

from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_files import MARKER
from tfdist.checkpoint.shards.staging_folder import Staging, small_text, token_in
from tfdist.runtime.collectives.chief_broadcast import text_from_chief
from tfdist.runtime.collectives.decisions import gather_objects


def agreed_staging(folder: Path | None, strategy: tf.distribute.Strategy) -> Staging:
    """Returns where a checkpoint is made, and by whom; all workers call it together.

    Args:
        folder: On the chief, the one that it has made; None where there is none, and elsewhere.
        strategy: The strategy in force.
    """
    offered = {} if folder is None else {"folder": os.path.abspath(folder), "token": token_in(folder)}
    told = json.loads(text_from_chief(json.dumps(offered), strategy))
    place = Path(told["folder"]) if told else None
    reaches = place is not None and token_in(place) == told["token"]
    answers = gather_objects({"reaches": reaches, "busy": writer().is_busy}, strategy)
    busy = [worker for worker, answer in enumerate(answers) if answer["busy"]]
    return Staging(place, all(answer["reaches"] for answer in answers), busy)


def all_reach(folder: str, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether all workers reach a checkpoint in a folder of the chief's; all of them call it together."""
    marker = Path(folder) / MARKER
    told = text_from_chief(small_text(marker), strategy)
    return all(gather_objects(bool(told) and small_text(marker) == told, strategy))
