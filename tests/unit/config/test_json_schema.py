"""The JSON schema of a config: valid, and of one mind with the checker wherever a schema can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.config.test_load_errors import OVERRIDES
from tests.unit.config.test_training_sections import ELSEWHERE
from tfdist.cli.main import main
from tfdist.config.data_sections import FORMATS
from tfdist.config.json_schema import config_schema, described_keys
from tfdist.config.load import load_config
from tfdist.config.schema import RunConfig
from tfdist.config.section import Section
from tfdist.config.yaml_document import read_document

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[3]

ACROSS_KEYS = (
    "data.train.split: expected train or test, or the names",
    "data.train.samples: expected an integer without lanes",
    "data.train.samples: expected 2 integers, the samples of each lane",
    "data.train.columns: expected none to be the label",
    "data.train.parse: expected either parse or features",
    "data.train.label: expected no label beside parse",
    "data.train.label: expected one of the features",
    "data.train.features: expected the label and at least",
    "data.train.features.x.shape: expected [height, width, channels]",
    "with 1, 3 or 4 channels",
)
"""What depends on several keys, which a schema leaves to the checker: how these errors begin."""


OF_YAML = (
    "model.args={1: a}",
    "model.args={on: [a, 2]}",
    "model.args={2026-01-01: a}",
    "name=2026-01-01",
    f"checkpoint.every_minutes={'9' * 400}",
)
"""Types of YAML that JSON has not, and a number that is larger than any of Python's."""


def validator() -> Any:
    schema = json.loads(json.dumps(config_schema()))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def content_of(path: Path, *overrides: str) -> Any:
    """What an editor sees of a config: all keys are texts."""
    document = read_document(path)
    for override in overrides:
        document = document.with_override(override)
    return json.loads(json.dumps(document.content, default=str))


def test_it_is_printed_as_json() -> None:
    done = CliRunner().invoke(main, ["config", "schema"])
    assert done.exit_code == 0 and json.loads(done.stdout) == json.loads(json.dumps(config_schema()))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_configs_of_the_repository_fit(path: Path) -> None:
    assert [error.message for error in validator().iter_errors(content_of(path))] == []


def test_the_config_of_a_run_fits(config_file: Path, tmp_path: Path) -> None:
    from tfdist.config.load import dump_yaml

    (tmp_path / "config.yaml").write_text(dump_yaml(load_config(config_file), {"keras": "3"}))
    assert validator().is_valid(content_of(tmp_path / "config.yaml"))


@pytest.mark.parametrize(
    "override",
    [
        "compile.optimizer={name: sgd, momentum: 0.9, learning_rate: {name: cosine_decay, decay_steps: 9}}",
        "compile.optimizer={build: my.optimizers.Own, args: {learning_rate: -1}}",
        "compile.loss={first: mse, second: {name: huber}}",
        "compile.loss=[mse, {build: my.losses.Own}]",
        "compile.metrics={first: accuracy, second: [auc, {build: my.Metric, args: {}}]}",
        "compile.jit_compile=true",
        "fit={epochs: 3, class_weight: {0: 1.5, 12: 3}, callbacks: [early_stopping, {name: a, patience: 3}]}",
        "fit.validation_freq=[2, 5]",
        "data.train={format: tfrecord, files: a*, parse: a.b}",
        "data.train={format: images, path: a, size: [8, 8]}",
        "data.train={format: generator, function: a.b, samples: [0, 3], lanes: 2}",
        "checkpoint={every_minutes: 0.5, every_steps: null}",
    ],
)
def test_what_the_checker_takes_fits(config_file: Path, override: str) -> None:
    load_config(config_file, [override])
    assert [error.message for error in validator().iter_errors(content_of(config_file, override))] == []


REFUSED = [
    override for override, message in OVERRIDES if not message.startswith(ACROSS_KEYS) and override not in OF_YAML
]
REFUSED += [f"{key}=1" for key, _ in ELSEWHERE]
REFUSED += [
    "compile.optimizer={name: adam, learning_rate: -1}",
    "compile.optimizer={name: adam, beta_1: 1}",
    "compile.optimizer={name: adam, gradient_accumulation_steps: 1}",
    "compile.optimizer={build: my.Own, learning_rate: 1}",
    "compile.optimizer={build: Own}",
    "compile.metrics={name: auc}",
    "compile.loss={build: Own}",
    "fit.validation_freq=0",
    "fit.validation_freq=[2, 2]",
    "fit.class_weight={cat: 2}",
    "fit.class_weight={0: -1}",
    "fit.class_weight={}",
    "fit.callbacks=early_stopping",
    "fit.callbacks=[{patience: 3}]",
    "compile.steps_per_execution=0",
]


@pytest.mark.parametrize("override", REFUSED)
def test_what_the_checker_refuses_does_not_fit(config_file: Path, override: str) -> None:
    assert not validator().is_valid(content_of(config_file, override))


def sections(schema: Any) -> Iterator[tuple[str, Any]]:
    yield "the config", schema
    yield from schema["definitions"].items()


def test_every_key_is_described() -> None:
    schema = config_schema()
    for name, section in sections(schema):
        if name == "SourceConfig":
            continue
        undescribed = [key for key, found in section["properties"].items() if "description" not in found]
        assert undescribed == [], name
    assert {f"{cls.__name__}" for cls in FORMATS.values()} < schema["definitions"].keys()


def test_a_description_is_what_the_docstring_says_on_one_line() -> None:
    class Example(Section):
        """An example.

        Attributes:
            first: Takes
                two lines.
            second: One.
        """

    assert described_keys(RunConfig)["precision"] == "The Keras dtype policy."
    assert "\n" not in "".join(described_keys(RunConfig).values())
    assert described_keys(Example) == {}
