"""What to run: the config's schema, and how it is read and checked."""

from tfdist.config.checkpoint_section import CheckpointConfig
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
from tfdist.config.schema import (
    CompileConfig,
    DataConfig,
    DevicesConfig,
    FitConfig,
    ModelConfig,
    RunConfig,
)

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
