"""Describes the input of a config: what its samples go through, from the config and the graphs of its functions."""

from __future__ import annotations

import os

import tensorflow as tf

from tfdist.config.data_sections import GeneratorSource, ImagesSource, SourceConfig, TextSource, TfrecordSource
from tfdist.config.dotted_path import resolve_callable
from tfdist.training.config_run.input_place import place_of
from tfdist.training.config_run.input_remedy import InputDescription


def describe_input(section: SourceConfig, gpus: int = 0) -> InputDescription:
    """Describes the input that a section of the config stands for.

    Args:
        section: `data.train`. Its functions are traced again, with unknown records.
        gpus: GPUs of this worker.
    """
    parse, spec = _parse_of(section)
    features = section.features or {} if isinstance(section, TfrecordSource) else {}
    images = isinstance(section, ImagesSource) or any(feature.dtype == "image" for feature in features.values())
    return InputDescription(
        format=section.format,
        decodes=images,
        python=parse if parse and _runs_python(parse, spec) else "",
        function=parse or _function_of(section) or section.augment or "",
        cores=len(os.sched_getaffinity(0)),
        place=place_of(section),
        gpus=gpus,
    )


def _function_of(section: SourceConfig) -> str:
    """The dotted path of the function that makes the samples, empty without one."""
    return section.function if isinstance(section, GeneratorSource) else ""


def _parse_of(section: SourceConfig) -> tuple[str, tf.TensorSpec]:
    """The dotted path of the function that parses, empty without one, and what it is called with."""
    if isinstance(section, TfrecordSource):
        return section.parse or "", tf.TensorSpec([], tf.string)
    if isinstance(section, TextSource):
        return section.vectorize or "", tf.TensorSpec([None], tf.string)
    return "", tf.TensorSpec([], tf.string)


def _runs_python(path: str, spec: tf.TensorSpec) -> bool:
    """Returns whether the graph of a function calls Python, by `tf.py_function` or `tf.numpy_function`."""
    graph = tf.function(resolve_callable(path, "parse")).get_concrete_function(spec).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return any("PyFunc" in node.op for node in nodes)
