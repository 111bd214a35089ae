from __future__ import annotations

import pytest

from tfdist.launch.noise import NoiseFilter, is_noise

NOISE = [
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    b"I0000 00:00:1795171847.332729    1071 port.cc:153] oneDNN custom operations are on.\n",
    b"W0000 00:00:1795172472.706573   25521 util.cc:163] Not handling type DT_DOUBLE\n",
    b"E0000 00:00:1795171849.464812    1071 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error\n",
]
SAID = [
    b"E0000 00:00:1795171849.464812    1071 other.cc:52] a real error\n",
    b"WARNING: mine\n",
    b"Warning: All log messages\n",
    b"I0 is a variable\n",
    b"epoch 1/10  loss 1.0\n",
    b"\n",
]


@pytest.mark.parametrize("line", NOISE)
def test_noise(line: bytes) -> None:
    assert is_noise(line)


@pytest.mark.parametrize("line", SAID)
def test_said_by_somebody(line: bytes) -> None:
    assert not is_noise(line)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_filters_whatever_the_pieces(size: int) -> None:
    stream = b"".join(line for pair in zip(NOISE, SAID, strict=False) for line in pair) + b"".join(SAID)
    wanted = b"".join(SAID[: len(NOISE)] + SAID)
    noise_filter = NoiseFilter()
    shown = b"".join(noise_filter.feed(stream[i : i + size]) for i in range(0, len(stream), size))
    assert shown + noise_filter.rest() == wanted


def test_a_progress_bar_is_not_held_back() -> None:
    noise_filter = NoiseFilter()
    assert noise_filter.feed(b"10%|#  ") == b"10%|#  "
    assert noise_filter.feed(b"\r20%|## ") == b"\r20%|## "


def test_what_only_began_like_noise_is_shown_at_the_end() -> None:
    noise_filter = NoiseFilter()
    assert noise_filter.feed(b"I00") == b""
    assert noise_filter.rest() == b"I00"
