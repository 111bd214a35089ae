"""The reference has every public name, and each has a docstring to show."""

from __future__ import annotations

import inspect
import re

import tfdist
import tfdist.ray
from tests.helpers.pages import DOCS


def test_the_reference_has_every_public_name_once() -> None:
    shown = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    names = [f"tfdist.{name}" for name in tfdist.__all__ if name not in ("data", "layers", "optimizers")]
    names += [f"tfdist.data.{name}" for name in tfdist.data.__all__]
    names += [f"tfdist.layers.{name}" for name in tfdist.layers.__all__]
    names += [f"tfdist.optimizers.{name}" for name in tfdist.optimizers.__all__]
    names += [f"tfdist.ray.{name}" for name in tfdist.ray.__all__]
    assert sorted(shown) == sorted(names)


def test_every_public_name_says_what_it_is() -> None:
    modules = (tfdist, tfdist.data, tfdist.layers, tfdist.optimizers)
    names = {"data", "layers", "optimizers"}
    public = [(module, name) for module in modules for name in module.__all__ if name not in names]
    assert [name for module, name in public if not inspect.getdoc(getattr(module, name))] == []
