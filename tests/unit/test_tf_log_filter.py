from __future__ import annotations

import pytest

from tfdist.tf_log_filter import TfLogFilter, is_tf_log_line

LOG_LINES = [
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    b"I0000 00:00:1795171847.332729    1071 port.cc:153] oneDNN custom operations are on.\n",
    b"W0000 00:00:1795172472.706573   25521 util.cc:163] Not handling type DT_DOUBLE\n",
    b"E0000 00:00:1795171849.464812    1071 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error\n",
    b"E0000 00:00:1795171849.464812    1071 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to\n",
    b"E0000 00:00:1795461997.876593   29000 util.cc:131] oneDNN supports DT_HALF only on platforms with AVX-512. "
    b"Falling back to the default Eigen-based implementation if present.\n",
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


FRAMES = '  File "ops.py", line 267, in __call__\n    return func(args)\n'
PIPELINE = "Local rendezvous is aborting with status: "
PASSED = "Error in user-defined function passed to MapDataset:1 transformation with iterator: Iterator::Root::Map: "


def python_error(text: str, line: int = 6, in_pipeline: bool = False) -> bytes:
    """What TensorFlow logs of an error of Python code."""
    head = "W0000 00:00:1795447726.093367    4321 op_kernel.cc:1845] "
    status = f"{PIPELINE}INVALID_ARGUMENT: {PASSED}" if in_pipeline else "INVALID_ARGUMENT: "
    frame = f'  File "mine.py", line {line}, in decode\n    raise error\n'
    nodes = "\t [[{{node EagerPyFunc}}]]\n\t [[IteratorGetNext]]\n" if in_pipeline else ""
    traceback = f"Traceback (most recent call last):\n\n{FRAMES}\n{frame}\n{text.removesuffix(': ')}\n\n\n"
    return f"{head}{status}{text}\n{traceback}{nodes}".encode()


def shown_error(text: str, line: int = 6) -> bytes:
    frame = f'  File "mine.py", line {line}, in decode\n    raise error\n'
    return f"Traceback (most recent call last):\n{FRAMES}{frame}{text.removesuffix(': ')}\n".encode()


@pytest.mark.parametrize("text", ["ValueError: sample 1", "ValueError: sample 1:\nno header\n\nno end", "KeyError: "])
@pytest.mark.parametrize("size", [1, 7, 90, 10_000])
def test_an_error_of_python_code_is_shown_once_for_each_place(text: str, size: int) -> None:
    other = text.replace("1", "2")
    parts = [b"mine\n", python_error(text), python_error(other), b"mine, too\n", python_error(other, line=9),
             python_error(text, in_pipeline=True), b"10%|#  "]  # fmt: skip
    stream = b"".join(parts)
    wanted = b"mine\n" + shown_error(text) + b"mine, too\n" + shown_error(other, line=9) + b"10%|#  "
    log_filter = TfLogFilter()
    shown = b"".join(log_filter.feed(stream[i : i + size]) for i in range(0, len(stream), size))
    assert shown + log_filter.rest() == wanted


def test_nothing_is_lost_after_what_only_looks_like_an_error_of_python_code() -> None:
    head = b"W0000 00:00:1795447726.093367    4321 op_kernel.cc:1845] INVALID_ARGUMENT: indices: out of range\n"
    lines = [b"line %d\n" % number for number in range(30)]
    log_filter = TfLogFilter()
    assert log_filter.feed(head) + b"".join(map(log_filter.feed, lines)) == b"".join(lines)
    assert log_filter.feed(head + lines[0]) + log_filter.rest() == lines[0]
    cut = python_error("ValueError: sample 1")[:-30]
    assert log_filter.feed(cut) == b""
    assert log_filter.rest() == cut.partition(b"\n")[2]
    assert log_filter.feed(cut + b"\n" + head) == cut.partition(b"\n")[2] + b"\n"
