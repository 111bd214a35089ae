"""Processors, from the text of /proc/cpuinfo.

By which kernels workers compute on the CPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.launch.worker.kernel_choice import (
    Kernels,
    Processor,
    choose_kernels,
    computes_on_gpus,
    default_kernels,
    kernel_settings,
    parse,
    this_processor,
)

AMD = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu fma avx2\n\nprocessor\t: 1\nmodel name\t: Another\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\nCPU revision\t: 1\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AMD, Processor("A Processor", frozenset({"fpu", "fma", "avx2"}))),
        (ARM, Processor("", frozenset({"fp", "asimd", "sve"}), ("0x41", "0xd40"))),
        ("no such rows", Processor()),
        ("", Processor()),
    ],
)
def test_the_first_processor_is_read(text: str, expected: Processor, tmp_path: Path) -> None:
    assert parse(text) == expected
    (tmp_path / "cpuinfo").write_text(text)
    assert this_processor(tmp_path / "cpuinfo") == expected


def test_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    assert this_processor(tmp_path / "absent") == Processor()


def test_it_can_what_all_of_the_flags_say() -> None:
    processor = parse(AMD)
    assert processor.can("avx2", "fma")
    assert not processor.can("avx2", "avx512f")


OLD = Processor(flags=frozenset({"sse4_2", "avx"}))
AVX2 = Processor(flags=frozenset({"avx", "fma", "avx2"}))
AVX512 = Processor(flags=AVX2.flags | {"avx512f", "avx512bw"})  # without VNNI, such as the first Xeons with AVX-512
VNNI = Processor(flags=AVX512.flags | {"avx512_vnni"})
NEOVERSE_N1 = Processor(flags=frozenset({"asimd"}), arm_core=("0x41", "0xd0c"))
NEOVERSE_V1 = Processor(flags=frozenset({"asimd", "sve"}), arm_core=("0x41", "0xd40"))
VARIABLE = "TF_ENABLE_ONEDNN_OPTS"


@pytest.mark.parametrize(
    ("processor", "kernels"),
    [
        (Processor(), "tensorflow"),
        (OLD, "tensorflow"),
        (AVX2, "tensorflow"),
        (AVX512, "tensorflow"),
        (VNNI, "onednn"),
        (Processor(flags=AVX2.flags | {"avx_vnni"}), "onednn"),
        (Processor(flags=frozenset({"amx_tile"})), "onednn"),
        (NEOVERSE_N1, "tensorflow"),
        (NEOVERSE_V1, "onednn"),
    ],
)
def test_what_tensorflow_takes_by_itself(processor: Processor, kernels: str) -> None:
    assert default_kernels(processor) == kernels


@pytest.mark.parametrize(
    ("processor", "environ", "has_gpu", "kernels", "setting"),
    [
        (AVX2, {}, False, "onednn", "onednn"),
        (AVX512, {}, False, "onednn", "onednn"),
        (VNNI, {}, False, "onednn", "auto"),  # TensorFlow sees to it
        (OLD, {}, False, "tensorflow", "auto"),
        (NEOVERSE_N1, {}, False, "tensorflow", "auto"),
        (NEOVERSE_V1, {}, False, "onednn", "auto"),
        (AVX2, {}, True, None, "auto"),
        (AVX2, {VARIABLE: "0"}, False, "tensorflow", "auto"),
        (AVX2, {VARIABLE: "True"}, False, "onednn", "auto"),
        (VNNI, {VARIABLE: "FALSE"}, False, "tensorflow", "auto"),
        (AVX2, {VARIABLE: "1"}, True, "onednn", "auto"),
        # Values that TensorFlow passes over, with a warning.
        (AVX2, {VARIABLE: ""}, False, "tensorflow", "auto"),
        (VNNI, {VARIABLE: "off"}, False, "onednn", "auto"),
    ],
)
def test_auto(
    processor: Processor, environ: dict[str, str], has_gpu: bool, kernels: str | None, setting: Kernels
) -> None:
    choice = choose_kernels("auto", environ, processor, has_gpu=has_gpu)
    assert (choice.kernels, choice.setting, choice.warning) == (kernels, setting, "")
    assert choice.is_users == (VARIABLE in environ)


@pytest.mark.parametrize("processor", [OLD, AVX2, VNNI])
@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize(
    ("asked", "said", "warns"),
    [
        ("onednn", None, False),
        ("onednn", "1", False),
        ("onednn", "0", True),
        ("onednn", "odd", False),
        ("tensorflow", None, False),
        ("tensorflow", "true", True),
        ("tensorflow", "false", False),
    ],
)
def test_what_is_asked_for_holds_and_a_contradiction_is_said(
    asked: Kernels, said: str | None, warns: bool, processor: Processor, has_gpu: bool
) -> None:
    choice = choose_kernels(asked, {} if said is None else {VARIABLE: said}, processor, has_gpu=has_gpu)
    assert (choice.kernels, choice.setting, choice.is_users) == (asked, asked, False)
    assert (f"{VARIABLE}={said}" in choice.warning and f"--kernels {asked}" in choice.warning) == warns
    assert bool(choice.warning) == warns


def test_the_variable_is_set_for_a_choice_alone() -> None:
    settings = [kernel_settings("auto"), kernel_settings("onednn"), kernel_settings("tensorflow")]
    assert settings == [{}, {VARIABLE: "1"}, {VARIABLE: "0"}]


def test_gpus_that_are_hidden_are_not_computed_on(tmp_path: Path) -> None:
    driver = tmp_path / "nvidiactl"
    assert not computes_on_gpus({}, driver)
    driver.touch()
    assert computes_on_gpus({}, driver)
    assert computes_on_gpus({"CUDA_VISIBLE_DEVICES": "1"}, driver)
    assert not computes_on_gpus({"CUDA_VISIBLE_DEVICES": "-1"}, driver)
    assert not computes_on_gpus({"CUDA_VISIBLE_DEVICES": ""}, driver)
