from __future__ import annotations

import pytest

from tfdist.training.config_run.input_remedy import InputDescription, remedy
from tfdist.training.config_run.input_wait import InputWait


@pytest.mark.parametrize(
    ("source", "busy", "told"),
    [
        (
            InputDescription("tfrecord", False, "my.parse", "my.parse", 4),
            1.0,
            "my.parse runs Python code for each sample",
        ),
        (InputDescription("csv", False, "", "", 4), 4.0, "tfdist data shard"),
        (InputDescription("text", False, "", "my.vectorize", 4), 1.2, "tfdist data shard"),
        (InputDescription("tfrecord", True, "", "", 4), 1.0, "1.0 of 4 cores are busy, so the files come too slowly"),
        (InputDescription("images", True, "", "my.augment", 4), 1.0, "`tfdist data shard` makes a few large files"),
        (InputDescription("tfrecord", False, "", "my.parse", 4), 3.9, "what my.parse does alike in every epoch"),
        (
            InputDescription("images", True, "", "", 4),
            3.5,
            "store the images in about the size that they are resized to",
        ),
        (InputDescription("npz", False, "", "", 2), 2.0, "2.0 of 2 cores are busy: give the run more of them"),
    ],
)
def test_the_one_change_that_would_help_most(source: InputDescription, busy: float, told: str) -> None:
    assert told in remedy(source, InputWait(10.0, 2.0, busy))
