"""The config of a run: its schema, and how a YAML file becomes a checked `RunConfig`.

`load` is the entry point. It reads the file as a `yaml_document`, applies `--set` and makes paths absolute. Then
`section` builds the frozen dataclasses of `schema`, `training_sections` and `data_sections` by their annotations; an
optimizer, a loss, a metric or a callback is a `keras_object`. What is wrong is a `FieldError` of `field_errors`, with
its key. `dotted_path` imports the functions that a config names. `json_schema` is all of it for editors.
"""

from tfdist.config.data_sections import (
    CsvSource,
    FeatureConfig,
    ImagesSource,
    NpzSource,
    SourceConfig,
    TextSource,
    TfrecordSource,
)
from tfdist.config.dotted_path import resolve_callable
from tfdist.config.load import dump_yaml, load_config, to_dict
from tfdist.config.schema import DataConfig, DevicesConfig, ModelConfig, RunConfig
from tfdist.config.training_sections import CheckpointConfig, CompileConfig, FitConfig

__all__ = [
    "CheckpointConfig",
    "CompileConfig",
    "CsvSource",
    "DataConfig",
    "DevicesConfig",
    "FeatureConfig",
    "FitConfig",
    "ImagesSource",
    "ModelConfig",
    "NpzSource",
    "RunConfig",
    "SourceConfig",
    "TextSource",
    "TfrecordSource",
    "dump_yaml",
    "load_config",
    "resolve_callable",
    "to_dict",
]
