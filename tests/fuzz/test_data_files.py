"""Files of a dataset: npz, CSV, text, and manifests of shards and of parts of predictions."""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from tests.fuzz.hostile_values import changed_bytes, changed_json, texts
from tests.fuzz.properties import fuzzed
from tests.fuzz.valid_files import npz
from tfdist.config.data_sections import CsvSource, NpzSource
from tfdist.data.formats import csv_files, npz_files
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.random_access.line_reader import TextReader
from tfdist.data.tools.format_checks import CsvRules, TextRules, make_line_checker
from tfdist.data.tools.shard_manifest import ShardManifest
from tfdist.errors import DataError, UsageError
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE as OUTPUTS_FILE
from tfdist.training.inference.outputs.kept_outputs import KeptFile, KeptOutputs
from tfdist.training.inference.outputs.output_formats import OutputColumn
from tfdist.training.inference.prediction_store import MANIFEST_FILE, Part, PredictionManifest, PredictionStore

ARRAYS = {"x_train": np.arange(12, dtype=np.float32).reshape(4, 3), "y_train": np.arange(4)}
NPZ = (npz(ARRAYS), npz(ARRAYS, packed=True), npz({**ARRAYS, "y_train": np.array([None] * 4)}))
CSV = b'\xef\xbb\xbfa, "b",y\r\n1,2,3\r\n"4",5e3,-6\n\n7,8,9'
TEXT = b"1\tone\n2\ttwo\r\n\n-3\t\xc3\xa9\tthree"
MANIFEST = ShardManifest(
    {"format": "npz", "split": "train"}, "abc", 10, 2, ("cat",), {"x": {"dtype": "float32"}}, {"a": 5}
)

_FIELDS = st.sampled_from(["1", "-2.5", "1e999", "nan", "1_0", '"', '"1"', '"a""b"', "", " ", "\0", "x" * 140_000, "é"])
PARTS = PredictionManifest(
    {"model": "a"}, (OutputColumn("p", "float32", (3,)),), (Part("part-000000000000.npz", 0, 4, 100, 7),)
)
SAID = KeptOutputs(
    4, PARTS.columns, (KeptFile("a.tfrecord", 4, 0),), {"p": "logits"}, "a.keras", 7, {"format": "npz", "split": "test"}
)
rows = st.lists(st.lists(_FIELDS, max_size=4).map(",".join), max_size=5).map(lambda lines: "\n".join(lines).encode())


@fuzzed(40, content=st.sampled_from(NPZ).flatmap(changed_bytes) | st.binary(max_size=50))
def test_an_npz_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with contextlib.suppress(DataError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = npz_files.read_npz(path, "train")
        x.sum(), y.shape
    with contextlib.suppress(DataError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes = npz_files.measure(NpzSource(format="npz", path=str(path), split="train"), "data.train")
        assert sizes.samples >= 1


@fuzzed(40, content=changed_bytes(CSV) | rows | rows.map(lambda lines: b"a,b,y\n" + lines))
def test_a_csv_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with contextlib.suppress(DataError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = CsvReader((path,), "y", None)
        x, y = reader.read(np.arange(len(reader)))
        assert x.shape == (len(reader), reader.num_features) and y.shape == (len(reader),)
    with contextlib.suppress(DataError):
        csv_files.measure(CsvSource(format="csv", files=str(path), label="y"), "data.train")
    with contextlib.suppress(DataError):
        make_line_checker(CsvRules.of((path,), None))(path, lambda _: None)


@fuzzed(25, content=changed_bytes(TEXT) | st.binary(max_size=100), separator=st.sampled_from("\t, :é"))
def test_a_text_file(content: bytes, separator: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        reader = TextReader((path,), separator)
        labels, found = reader.read(np.arange(len(reader)))[1], len(reader)
        assert labels.shape == (found,)
    make_line_checker(TextRules(separator))(path, lambda _: None)


@fuzzed(25, content=changed_json(json.loads(json.dumps(MANIFEST.to_json()))), name=texts)
def test_a_manifest_of_shards(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.shards.json"
    path.write_bytes(content)
    with contextlib.suppress(UsageError):
        found = ShardManifest.read(path)
        assert found is not None
        MANIFEST.differences(found)
        json.dumps(found.to_json())
        assert all("/" not in shard for shard in found.sizes)
        with contextlib.suppress(DataError):
            found.with_shard(name, 5, {"x": {"dtype": "float32"}})


@fuzzed(40, content=changed_json(json.loads(json.dumps(SAID.to_json()))))
def test_a_manifest_of_kept_outputs(content: bytes, tmp_path: Path) -> None:
    (tmp_path / OUTPUTS_FILE).write_bytes(content)
    (tmp_path / "a.tfrecord").touch()
    with contextlib.suppress(DataError):
        found = KeptOutputs.read(tmp_path)
        json.dumps(found.to_json())
        assert sum(file.samples for file in found.files) == found.samples
        assert all(Path(str(file)).parent == tmp_path for file in found.section(tmp_path).files)


@fuzzed(40, content=changed_json(json.loads(json.dumps(PARTS.to_json()))))
def test_a_manifest_of_parts(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / MANIFEST_FILE
    path.write_bytes(content)
    mine = tmp_path / "part-mine.txt"
    mine.write_text("mine")
    with contextlib.suppress(UsageError):
        found = PredictionManifest.read(path)
        assert found is not None
        assert found.done >= 0 and all("/" not in part.name for part in found.parts)
        json.dumps(found.to_json())
        PARTS.differences(found.work)
    # A manifest that says more than is there: what is damaged is not believed, and nothing of the user's goes.
    with contextlib.suppress(UsageError), contextlib.closing(PredictionStore(tmp_path, PARTS.work)) as store:
        assert store.done == 0
    assert mine.read_text() == "mine"
