"""Configs and overrides: read as they will be written, or refused with a place."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_bytes
from tests.fuzz.properties import fuzzed
from tfdist.config.load import dump_yaml, load_config, shared_settings
from tfdist.errors import ConfigError

CONFIG = b"""\
name: digits
seed: 7
model: {build: tfdist.models.mlp, args: {inputs: [64], hidden: [128, 64], classes: 10}}
compile: {optimizer: {name: adam, learning_rate: 2e-3}, loss: sparse_categorical_crossentropy, metrics: [accuracy]}
data:
  batch_size: 128   # global
  train: {format: npz, path: ../digits.npz, split: train, shuffle: true}
  validation: {format: csv, files: [a.csv, "b*.csv"], label: y}
fit: {epochs: 10}
precision: float32
checkpoint: {every_steps: 100, every_minutes: null, keep: 3, directory: a}
"""

PARTS = (
    "&a ", "*a", "*b", "<<: *a", "!!python/object:os.system ", "!!binary ", "!!set ", "!!timestamp ", "!!int ", "!x ",
    "2001-99-99", "1:30", "010", ".inf", ".nan", "1e999", "0x", "1_0", "=", "~", "yes", "? ", ": ", "- ", "[", "]",
    "{", "}", '"', "'", "|\n ", ">\n ", "#", "---\n", "...\n", "%YAML 1.1\n", "\t", "\u2028", "\ufeff", "\x85", "\0",
    "9" * 5000, "a: " * 50, "[" * 200, "{a: " * 200, "\n", "  ", "data:\n", "checkpoint: ",
    "&b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n",
)  # fmt: skip


@st.composite
def configs(draw: st.DrawFn) -> bytes:
    """A config with parts of YAML put anywhere, or with changed bytes."""
    data = bytearray(CONFIG)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.sampled_from((0, 0, 1, 10)))] = draw(st.sampled_from(PARTS)).encode()
    return draw(changed_bytes(bytes(data))) if draw(st.booleans()) else bytes(data)


KEYS = ("fit.epochs", "data.train", "name", "checkpoint.directory", "a..b", "", "model.args.x", "seed", "data.train.x")
overrides = st.tuples(
    st.sampled_from(KEYS), st.sampled_from(("=", "", "==")), st.lists(st.sampled_from(PARTS), max_size=3).map("".join)
).map("".join)


@fuzzed(40, content=configs(), override=st.none() | overrides)
def test_a_config_is_read_or_refused(content: bytes, override: str | None, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    with contextlib.suppress(ConfigError):
        config = load_config(file, [] if override is None else [override])
        shared_settings(config)
        file.write_text(dump_yaml(config), encoding="utf-8")
        assert load_config(file) == config or "nan" in dump_yaml(config)
