""""""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.verify.replicas.variants import Unavailable, Variant, VerifySpec, variants


def test_something_must_be_compared() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        VerifySpec("script", "train.py", "train", replicas=1)


def spec(**options: Any) -> VerifySpec:
    return VerifySpec("script", "train.py", "train", **options)


def planned(
    gpus: int = 0, jit_compile: bool = False, half: bool = False, **options: Any
) -> list[Variant | Unavailable]:
    return variants(spec(**options), gpus, jit_compile=jit_compile, half=half)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [Variant("2 replicas", "replicas", replicas=2)]),
        ({"replicas": 3}, [Variant("3 replicas", "replicas", replicas=3)]),
        ({"replicas": 1, "nproc": 2}, [Variant("2 workers", "replicas", workers=2, replicas=2)]),
        ({"replicas": 1, "nproc": 2, "gpus": 2}, [Variant("2 workers", "replicas", workers=2, replicas=2)]),
        ({"replicas": 1, "also": ("xla",)}, [Variant("XLA on", "xla", jit_compile=True)]),
        ({"replicas": 1, "also": ("xla",), "jit_compile": True}, [Variant("XLA off", "xla", jit_compile=False)]),
        (
            {"replicas": 1, "also": ("precision",), "half": True},
            [Variant("float32", "precision", precision="float32")],
        ),
        (
            {"replicas": 1, "also": ("communication",), "gpus": 2},
            [
                Variant("2 workers, RING", "replicas", 2, 2, communication="ring"),
                Variant("2 workers, NCCL", "communication", 2, 2, communication="nccl", reference="2 workers, RING"),
            ],
        ),
        (
            {"nproc": 2, "communication": "ring", "compression": "bfloat16"},
            [
                Variant("2 replicas", "replicas", replicas=2, communication="ring"),
                Variant("2 workers, bfloat16", "replicas", 2, 2, communication="ring", compression="bfloat16"),
            ],
        ),
        (
            {"replicas": 1, "also": ("communication",), "gpus": 2, "compression": "float16"},
            [
                Variant("2 workers, RING, float16", "replicas", 2, 2, communication="ring", compression="float16"),
                Variant(
                    "2 workers, NCCL, float16",
                    "communication",
                    2,
                    2,
                    communication="nccl",
                    compression="float16",
                    reference="2 workers, RING, float16",
                ),
            ],
        ),
    ],
)
def test_which_runs(options: dict[str, Any], expected: list[Variant]) -> None:
    assert planned(**options) == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"also": ("communication",)}, "NCCL needs a physical GPU for every replica, so 2; TensorFlow sees 0 here."),
        ({"also": ("communication",), "nproc": 3, "gpus": 2, "devices": (0, 1, 2)}, None),
        ({"also": ("communication",), "gpus": 4, "devices": (0,)}, "so 2; TensorFlow sees 1 here."),
        ({"also": ("precision",)}, "the target computes in float32 already"),
        ({"nproc": 3, "gpus": 2}, "each worker needs a GPU, and there are 2; --share-gpu lets them share."),
    ],
)
def test_unavailable_variants_have_a_reason(options: dict[str, Any], reason: str | None) -> None:
    reasons = [each.reason for each in planned(replicas=1, **options) if isinstance(each, Unavailable)]
    assert [reason in said for said in reasons] == [True] if reason else not reasons
