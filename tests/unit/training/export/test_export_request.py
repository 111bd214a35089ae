"""Inputs as a user gives them."""

from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.training.export.export_request import InputEntry, parse_signature


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("float32:None,64", InputEntry("", "float32", (None, 64))),
        ("image=uint8:?,28,28,1", InputEntry("image", "uint8", (None, 28, 28, 1))),
        ("review=string:none", InputEntry("review", "string", (None,))),
        ("x=int32:8, 16", InputEntry("x", "int32", (8, 16))),
    ],
)
def test_an_input(text: str, entry: InputEntry) -> None:
    assert parse_signature([text]) == (entry,)


@pytest.mark.parametrize(
    "texts",
    [["float32"], ["float33:None"], ["x=float32:"], ["=float32:1"], ["x=float32:0"], ["x=float32:-1"], ["x y=bool:1"]]
    + [["float32:1", "int32:1"], ["x=float32:1", "x=int32:1"]],
)
def test_what_cannot_be_read(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--input-signature image=float32:None,28,28,1"):
        parse_signature(texts)
