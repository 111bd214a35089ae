from __future__ import annotations

import pytest

from tfdist.tf_log_filter import NcclLineFilter, TfLogFilter, is_tf_log_line

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
    b"I0000 00:00:1765706057.714498   43510 gpu_device.cc:2020] Created device /job:localhost/replica:0/task:0/device:"
    b"GPU:0 with 9709 MB memory:  -> device: 0, name: NVIDIA H100, pci bus id: 0000:09:00.0, compute capability: 9.0\n",
    b"I0000 00:00:1765706063.725805   43510 service.cc:171]   StreamExecutor device (0): NVIDIA H100, Compute "
    b"Capability 9.0\n",
    b"I0000 00:00:1765706078.610660   43639 device_compiler.h:196] Compiled cluster using XLA!  This line is logged at "
    b"most once for the lifetime of the process.\n",
    b"2026-11-23 17:54:24.444317: I external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:473] Loaded cuDNN version "
    b"91700\n",
    b"I0000 00:00:1723232760.061207 1704934 cuda_executor.cc:1015] successful NUMA node read from SysFS had negative "
    b"value (-1), but there must be at least one NUMA node, so returning NUMA node zero.\n",
    b"2026-11-23 13:41:22.256200: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not "
    b"find TensorRT\n",
    b"2026-11-23 17:54:24.593579: I external/local_xla/xla/service/gpu/autotuning/dot_search_space.cc:208] All configs "
    b"were filtered out because none of them sufficiently match the hints.\n",
    b"2026-11-23 17:54:36.275228: E external/local_xla/xla/stream_executor/cuda/cuda_timer.cc:86] Delay kernel timed "
    b"out: measured time has sub-optimal accuracy. There may be a missing warmup execution, please investigate in "
    b"Nsight Systems.\n",
    b"E0000 00:00:1765706057.714498   43510 gpu_timer.cc:82] Delay kernel timed out: measured time has sub-optimal\n",
    b"2026-11-23 17:54:29.810322: E external/local_xla/xla/service/slow_operation_alarm.cc:73] Trying algorithm eng4{} "
    b"for conv (f32[32,16,112,112]{3,2,1,0}, u8[0]{0}) is taking a while...\n",
    b"WARNING:tensorflow:Enabled NCCL communication but no GPUs detected/specified.\n",
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
    b"E0000 00:00:1795171849.464812    1071 cuda_timer.cc:12] CUDA_ERROR_ILLEGAL_ADDRESS\n",
    b"E0000 00:00:1795171849.464812    1071 conv_algorithm_picker.cc:12] Results mismatch between algorithms\n",
    b"WARNING:tensorflow:Gradients do not exist for variables\n",
    b"WARNING:tensorflow:Enabled NCCL communication but no GPUs detected/specified. Mine\n",
    b"ptxas warning : mine\n",
    b"This message will be only mine\n",
    b"Trying algorithm k-means is taking a while...\n",
    b"  /usr/local/mine\n",
    b"Relying on driver to perform ptx compilation.\n",
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
    wanted = b"".join(OTHERS[: min(len(LOG_LINES), len(OTHERS))] + OTHERS)
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


NUMA = (
    b"I0000 00:00:1795252789.635239    5007 cuda_executor.cc:984] could not open file to read NUMA node: "
    b"/sys/bus/pci/devices/0000:01:00.0/numa_node\nYour kernel may have been built without NUMA support.\n"
)
SPILLED = (
    b"2026-11-23 11:03:21.506815: I external/local_xla/xla/stream_executor/cuda/subprocess_compilation.cc:346] ptxas "
    b"warning : Registers are spilled to local memory in function 'gemm_fusion_dot_121', 8 bytes spill stores, 8 bytes "
    b"spill loads\nptxas warning : Registers are spilled to local memory in function 'gemm_fusion_dot_22', 4 bytes\n\n"
)
NO_PTXAS = (
    b"W0000 00:00:1795252789.635239    5007 redzone_allocator.cc:318] INTERNAL: Failed to launch ptxas\n"
    b"Relying on driver to perform ptx compilation. \nModify $PATH to customize ptxas location.\n"
    b"This message will be only logged once.\n"
)
NO_LIBDEVICE = (
    b"2026-11-23 19:11:47.887239: W external/local_xla/xla/service/gpu/llvm_gpu_backend/default/nvptx_libdevice_path.cc"
    b":41] Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice. This may result in compilation or runtime "
    b"failures, if the program we try to run uses routines from libdevice.\n"
    b"Searched for CUDA in the following directories:\n"
    b"  ./cuda_sdk_lib\n  \n  /usr/local/cuda\nYou can choose the search directory by setting xla_gpu_cuda_data_dir in "
    b"HloModule's DebugOptions.  For most apps, setting the environment variable XLA_FLAGS=--xla_gpu_cuda_data_dir="
    b"/path/to/cuda will work.\n"
)
SLOW = (
    b"2026-11-23 17:54:29.811280: E external/local_xla/xla/service/slow_operation_alarm.cc:140] The operation took "
    b"1.987374848s\nTrying algorithm eng4{} for conv (f32[32,16,112,112]{3,2,1,0}) is taking a while...\n"
)
COMPILES = (
    b"E0000 00:00:1795252789.635239    5007 slow_operation_alarm.cc:73] \n********************************\n"
    b"[Compiling module a_inference_one_step_on_data__XlaMustCompile] Very slow compile? If you want to file a bug, "
    b"run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.\n********************************\n"
)
FOLDS = (
    b"E0000 00:00:1795252789.635239    5007 slow_operation_alarm.cc:73] Constant folding an instruction is taking > 1s:"
    b"\n\n  %reduce.4 = f32[] reduce(%broadcast.2, %constant.1)\n\nThis isn't necessarily a bug; constant-folding is "
    b"inherently a trade-off between compilation time and speed at runtime.\n\n"
    b"If you'd like to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.\n"
)


@pytest.mark.parametrize(
    "message", [FEATURES, TASKS, END, NUMA, SPILLED, NO_PTXAS, NO_LIBDEVICE, SLOW, COMPILES, FOLDS]
)
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


def test_the_end_of_a_progress_bar_is_not_the_end_of_a_message() -> None:
    log_filter = TfLogFilter()
    assert log_filter.feed(b"\r10%|#  ") == b"\r10%|#  "
    assert log_filter.feed(SPILLED.removesuffix(b"\n")) == b""
    assert log_filter.feed(b"\n\nmine\n") == b"\n\nmine\n"


NCCL = b"NCCL version 2.31.2+cuda12.9\n"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_version_that_nccl_says(size: int) -> None:
    mine = b"N\nNCCL version is 2\n\nmy NCCL version 2.31.2\nNCCL version 2.31.2 is mine\nNCCL"
    stream = NCCL + mine[:2] + NCCL + mine[2:]
    log_filter = NcclLineFilter()
    shown = b"".join(log_filter.feed(stream[i : i + size]) for i in range(0, len(stream), size))
    assert shown + log_filter.rest() == mine


def test_standard_output_is_not_held_back() -> None:
    log_filter = NcclLineFilter()
    assert log_filter.feed(b"10%|#  ") == b"10%|#  "
    assert log_filter.feed(b"N") == b"N"  # inside of a line
    assert log_filter.feed(b"\nNCC") == b"\n"
    assert log_filter.feed(b"!") == b"NCC!"


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
    return f"{head}{status}{text.removeprefix('mine.')}\n{traceback}{nodes}".encode()


def shown_error(text: str, line: int = 6) -> bytes:
    frame = f'  File "mine.py", line {line}, in decode\n    raise error\n'
    return f"Traceback (most recent call last):\n{FRAMES}{frame}{text.removesuffix(': ')}\n".encode()


@pytest.mark.parametrize("text", ["ValueError: sample 1", "mine.Odd: sample 1:\nno header\n\nno end", "KeyError: "])
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


def test_the_way_of_a_broken_collective_through_tfdist_is_not_shown() -> None:
    """The worker's failure is reported, beside the cause, by its launcher."""
    text = "WorkerFailedError: This worker waited for the others, and it broke off: worker 1 has ended."
    cause = 'Traceback (most recent call last):\n\n  File "links.py", line 1, in wait\nBrokenPipeError: [32]\n\n\n'
    after = f"{cause}The above exception was the direct cause of the following exception:\n\n\nTraceback (most recent "
    after += f"call last):\n\n{FRAMES}\ntfdist.errors.{text}\n\n\n"
    heads = ["op_kernel.cc:1845] UNKNOWN: ", f"local_rendezvous.cc:412] {PIPELINE}UNKNOWN: "]
    stream = "".join(f"W0000 00:00:1795447726.093367    4321 {head}{text}\n{after}" for head in heads)
    assert TfLogFilter().feed(f"{stream}\t [[{{{{node tfdist_exchange_2}}}}]]\nmine\n".encode()) == b"mine\n"


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
