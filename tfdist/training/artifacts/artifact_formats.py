"""The formats that a model can be exported to: their endings, and what each needs. Nothing here loads TensorFlow."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tfdist.errors import UsageError

RUNTIME_NAMES: Mapping[str, str] = MappingProxyType(
    {"savedmodel": "TensorFlow", "onnx": "ONNX Runtime", "litert": "LiteRT", "openvino": "OpenVINO"}
)
"""Runtimes that run an artefact -> their names."""


@dataclass(frozen=True)
class ArtifactFormat:
    """A format.

    Attributes:
        name: As `--format` has it.
        title: Its name in words.
        ending: Of the file; empty for a folder.
        runtime: What runs it, a key of `RUNTIME_NAMES`.
        packages: What must be installed beside TensorFlow, as it is imported.
        extra: The extra of tfdist that installs these; empty where none is needed.
        suffix: Of the default name, before the ending.
        activation_bits: Of integers, by which it computes; 0 for floats. With integers it is written by samples of the
            data, and so is not Keras up to rounding.
        finer: The format that loses less; empty where none does.
        has_versions: Whether its folder has a folder for each version, as servers want it.
    """

    name: str
    title: str
    ending: str
    runtime: str
    packages: tuple[str, ...] = ()
    extra: str = ""
    has_versions: bool = False
    suffix: str = ""
    activation_bits: int = 0
    finer: str = ""

    @property
    def is_calibrated(self) -> bool:
        """True if it is written by samples of the data."""
        return self.activation_bits > 0

    def check_installed(self) -> None:
        """Checks that what it needs is there.

        Raises:
            UsageError: A package is missing.
        """
        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if missing:
            raise UsageError(
                f"The format {self.name} needs {' and '.join(missing)}, which this Python does not have. Expected "
                f"what writes it and what runs it. Install it: pip install 'tfdist[{self.extra}]', or choose another "
                "--format."
            )


_ONNX = ("onnx", "onnxruntime", "tf2onnx")

FORMATS: Mapping[str, ArtifactFormat] = MappingProxyType(
    {
        one.name: one
        for one in (
            ArtifactFormat("savedmodel", "SavedModel", "", "savedmodel", has_versions=True),
            ArtifactFormat("onnx", "ONNX", ".onnx", "onnx", _ONNX, "onnx"),
            ArtifactFormat("litert", "LiteRT", ".tflite", "litert"),
            ArtifactFormat(
                "litert-int8",
                "LiteRT in int8",
                ".tflite",
                "litert",
                suffix="-int8",
                activation_bits=8,
                finer="litert-int16x8",
            ),
            ArtifactFormat(
                "litert-int16x8",
                "LiteRT in int8 with activations in int16",
                ".tflite",
                "litert",
                suffix="-int16x8",
                activation_bits=16,
                finer="litert",
            ),
            ArtifactFormat("openvino", "OpenVINO", "", "openvino", ("openvino",), "openvino", has_versions=True),
            ArtifactFormat("tensorrt", "TensorRT", "", "onnx", _ONNX, "onnx"),
        )
    }
)
"""Name -> format."""
