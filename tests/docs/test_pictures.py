"""The picture of the order of the samples shows the order that tfdist computes."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from tests.helpers.pages import DOCS
from tfdist.order.epoch_order import EpochOrder, bounds

PICTURE = (DOCS / "pictures" / "order.svg").read_text()
SAMPLES, BATCH, SEED = 10, 4, 7
_BOX = re.compile(r'<rect [^>]*fill="(#\w+)" stroke="#5c6bc0"/>\n<text [^>]*>(\d+)</text>')


def test_the_picture_shows_the_order_of_its_seed() -> None:
    assert f"seed {SEED}, epoch 0: {SAMPLES} samples in global batches of {BATCH}" in PICTURE
    order = EpochOrder(SAMPLES, SEED, True).at(0, np.arange(SAMPLES)).tolist()
    assert [int(sample) for _, sample in _BOX.findall(PICTURE)] == order * 4


def test_the_picture_deals_a_batch_as_replicas_get_it() -> None:
    boxes = _BOX.findall(PICTURE)
    edges = [*range(0, SAMPLES, BATCH), SAMPLES]
    for replicas in (1, 2, 3):
        row = [color for color, _ in boxes[replicas * SAMPLES : (replicas + 1) * SAMPLES]]
        for begin, end in pairwise(edges):
            shares = [bounds(end - begin, replicas, k) for k in range(replicas)]
            expected = [k for k, (first, last) in enumerate(shares) for _ in range(first, last)]
            colors = list(dict.fromkeys(row[begin:end]))
            assert [colors.index(color) for color in row[begin:end]] == expected
