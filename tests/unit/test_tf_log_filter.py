from __future__ import annotations

import pytest

from tfdist.tf_log_filter import TfLogFilter, is_tf_log_line

LOG_LINES = [
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    b"I0000 00:00:1795171847.332729    1071 port.cc:153] oneDNN custom operations are on.\n",
    b"W0000 00:00:1795172472.706573   25521 util.cc:163] Not handling type DT_DOUBLE\n",
    b"E0000 00:00:1795171849.464812    1071 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error\n",
    b"E0000 00:00:1795171849.464812    1071 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to\n",
    b"I0000 00:00:1795252789.635228    5007 coordination_service.cc:502] Waiting for 1/2 tasks to connect.\n",
    b"2026-11-23 15:05:50.064803: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\n",
    b"2026-11-23 15:06:10.500956: W tensorflow/core/framework/dataset.cc:993] Input of GeneratorDatasetOp\n",
    b"2026-11-23 15:06:10.500956: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:467] Unable to register "
    b"cuFFT factory: Attempting to\n",
]
OTHERS = [
    b"2026-11-23 15:06:10.500956: E tensorflow/core/framework/op.cc:1] a real error\n",
    b"2026-11-23 15:06:10.500956: I train.py:12] a script's own\n",
    b"2026-11-23 15:06:10,500 INFO a script's own logging\n",
    b"2026-11-23\n",
    b"E0000 00:00:1795171849.464812    1071 other.cc:52] a real error\n",
    b"WARNING: mine\n",
    b"Warning: All log messages\n",
    b"I0 is a variable\n",
    b"I1121 09:19:45.123456 140134 train.py:12] a script's own absl.logging\n",
    b"W1121 09:19:45.123456 140134 train.py:12] the same\n",
    b"E0000 00:00:1795171849.464812    1071 cuda_dnn.cc:12] CUDNN_STATUS_EXECUTION_FAILED\n",
    b"To enable the following instructions: read the manual\n",
    b"/job:worker/replica:0/task:1\n",
    b"\t [[{{node mine}}]]\n",
    b"epoch 1/10  loss 1.0\n",
    b"\n",
]


@pytest.mark.parametrize("line", LOG_LINES)
def test_a_log_line_of_tensorflow(line: bytes) -> None:
    assert is_tf_log_line(line)


@pytest.mark.parametrize("line", OTHERS)
def test_any_other_line(line: bytes) -> None:
    assert not is_tf_log_line(line)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_filters_in_any_pieces(size: int) -> None:
    stream = b"".join(line for pair in zip(LOG_LINES, OTHERS, strict=False) for line in pair) + b"".join(OTHERS)
    wanted = b"".join(OTHERS[: len(LOG_LINES)] + OTHERS)
    log_filter = TfLogFilter()
    shown = b"".join(log_filter.feed(stream[i : i + size]) for i in range(0, len(stream), size))
    assert shown + log_filter.rest() == wanted


def test_a_progress_bar_is_not_held_back() -> None:
    log_filter = TfLogFilter()
    assert log_filter.feed(b"10%|#  ") == b"10%|#  "
    assert log_filter.feed(b"\r20%|## ") == b"\r20%|## "


def test_a_line_that_only_started_like_a_log_line_is_shown_at_the_end() -> None:
    log_filter = TfLogFilter()
    assert log_filter.feed(b"I00") == b""
    assert log_filter.rest() == b"I00"


FEATURES = (
    b"I0000 00:00:1795252786.634872    4695 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use "
    b"available CPU instructions in performance-critical operations.\n"
    b"To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate "
    b"compiler flags.\n"
)
TASKS = (
    b"I0000 00:00:1795252789.635239    5007 coordination_service.cc:505] Example stragglers:\n"
    b"/job:worker/replica:0/task:1\n/job:worker/replica:0/task:12\n"
)
END = (
    b"2026-11-23 15:06:14.555117: I tensorflow/core/framework/local_rendezvous.cc:407] Local rendezvous is aborting "
    b"with status: OUT_OF_RANGE: End of sequence\n\t [[{{node MultiDeviceIteratorGetNextFromShard}}]]\n"
)


@pytest.mark.parametrize("message", [FEATURES, TASKS, END])
@pytest.mark.parametrize("size", [1, 3, 40, 1000])
def test_messages_of_several_lines(message: bytes, size: int) -> None:
    stream = message + b"mine\n/job:worker/replica:0/task:1\n"
    log_filter = TfLogFilter()
    shown = b"".join(log_filter.feed(stream[i : i + size]) for i in range(0, len(stream), size))
    assert shown + log_filter.rest() == b"mine\n/job:worker/replica:0/task:1\n"


def test_a_log_line_in_the_middle_of_a_progress_bar() -> None:
    log_filter = TfLogFilter()
    assert log_filter.feed(b"\r10%|#  ") == b"\r10%|#  "
    assert log_filter.feed(LOG_LINES[1]) == b""
    assert log_filter.feed(b"\r20%|## ") == b"\r20%|## "
