import re

from tfdist.sharding.layout_patterns import LayoutPattern, PatternedWeight, pattern_findings

WEIGHTS = [
    PatternedWeight("dense/kernel", (8, 6)),
    PatternedWeight("dense/bias", (6,)),
    PatternedWeight("narrow/kernel", (6, 1)),
    PatternedWeight("norm/gamma", (6,)),
    PatternedWeight("norm/moving_mean", (6,), is_trained=False),
    PatternedWeight("seed", (), is_trained=False),
]
SIZES = {"batch": 1, "model": 2}


def found(**named: tuple[str | None, ...]) -> list[str]:
    patterns = []
    for name, axes in named.items():
        text = name.replace("__", "/").replace("_any", ".*")
        weights = tuple(weight for weight in WEIGHTS if re.fullmatch(text, weight.path))
        patterns.append(LayoutPattern(text, axes, weights, matches_outputs=text == "dense/output"))
    return pattern_findings(patterns, SIZES, "net")


def test_a_map_that_fits_has_no_findings() -> None:
    assert found(dense__kernel=(None, "model"), dense__bias=("model",), dense__output=(None, "model")) == []
    assert found(narrow__kernel=("model", None), norm__gamma=(None,), dense__bias=("batch",)) == []


def test_a_pattern_that_matches_nothing() -> None:
    (said,) = found(dens__kernel=(None, "model"))
    assert said == "The pattern 'dens/kernel' of the layout map matches no weight and no output of 'net'."


def test_a_pattern_that_matches_what_is_not_trained() -> None:
    (said,) = found(norm__moving_any=("model",))
    assert "which stay whole: norm/moving_mean." in said


def test_an_axis_that_is_shorter_than_there_are_workers() -> None:
    (said,) = found(narrow__kernel=(None, "model"))
    assert "cuts an axis of 1 element for 2 workers, some of which then have none: narrow/kernel." in said


def test_vectors_that_are_cut_alone() -> None:
    (said,) = found(norm_any=("model",))
    assert "cuts vectors of layers whose other weights are not cut alike" in said and "norm/gamma" in said
    assert len(found(dense__bias=("model",), dense__kernel=("model", None))) == 1
