from typing import Any

import pytest

from tfdist.sharding.derived_layouts import CutKernel, MadeWeight, derived_layout

COLUMNS, ROWS = "by columns", "by rows"


def made(kind: str, name: str, shape: tuple[int, ...], **more: Any) -> MadeWeight:
    return MadeWeight((kind, "Layer"), more.pop("layer", kind.lower()), name, shape, **more)


def into_heads(heads: int, **more: Any) -> MadeWeight:
    return made("EinsumDense", "kernel", (256, heads, 64), equation="abc,cde->abde", **more)


KERNELS = [
    (made("Dense", "kernel", (128, 512)), 1, COLUMNS),
    (made("Dense", "kernel", (512, 128)), 0, ROWS),
    (made("Dense", "kernel", (256, 256)), 1, COLUMNS),
    (made("Dense", "kernel", (64, 50000)), 1, COLUMNS),
    (made("Dense", "kernel", (9000, 2)), 0, ROWS),
    (made("Dense", "kernel", (20, 30)), None, "small"),
    (made("Dense", "lora_kernel_a", (20000, 4)), None, "low rank"),
    (made("Dense", "kernel", (512, 128), is_trained=False), None, "not trained"),
    (into_heads(8), 1, "by heads"),
    (into_heads(3, layer="key"), 1, "by heads"),
    (into_heads(1, layer="query"), None, "1 heads for 2 workers"),
    (into_heads(4, layer="key", key_value_heads=4), 1, "by heads"),
    (into_heads(3, layer="value", key_value_heads=3), None, "3 heads of keys and values for 2 workers"),
    (into_heads(3, layer="query", key_value_heads=3), 1, "by heads"),
    (made("EinsumDense", "kernel", (8, 64, 256), equation="abcd,cde->abe"), 0, "by heads"),
    (made("EinsumDense", "kernel", (8, 256, 64), equation="btd,ndh->btnh"), 0, "by heads"),
    (made("EinsumDense", "kernel", (8, 64, 256), equation="btnh,nhd->btd"), 0, "by heads"),
    (made("EinsumDense", "kernel", (128, 512), equation="abc,cd->abd"), 1, COLUMNS),
    (made("EinsumDense", "kernel", (512, 128), equation="...c,cd->...d"), 0, ROWS),
    (made("EinsumDense", "kernel", (200, 200), equation="ab,ab->ab"), None, "not known"),
    (made("Embedding", "embeddings", (30000, 64)), 0, "by vocabulary"),
    (made("Embedding", "embeddings", (512, 768)), None, "few rows"),
    (made("Embedding", "reverse_embeddings", (64, 30000)), 1, "by vocabulary"),
    (made("PositionEmbedding", "position_embeddings", (4096, 768)), None, "as a whole"),
    (made("BaseConv", "kernel", (3, 3, 64, 128)), 3, "by channels"),
    (made("BaseConvTranspose", "kernel", (3, 3, 128, 64)), 2, "by channels"),
    (made("BaseDepthwiseConv", "kernel", (7, 7, 512, 1)), None, "each channel"),
    (made("BaseSeparableConv", "depthwise_kernel", (7, 7, 512, 1)), None, "each channel"),
    (made("BaseSeparableConv", "pointwise_kernel", (1, 1, 512, 256)), 3, "by channels"),
    (made("LSTMCell", "recurrent_kernel", (512, 2048)), None, "in a loop"),
    (made("BatchNormalization", "gamma", (20000,)), None, "a vector"),
    (made("Layer", "w", ()), None, "a vector"),
    (made("Layer", "w", (500, 500)), None, "not known"),
    (made("Layer", "w", (500, 3000)), 1, "large"),
]


@pytest.mark.parametrize(("weight", "axis", "reason"), KERNELS)
def test_axis_of_a_weight(weight: MadeWeight, axis: int | None, reason: str) -> None:
    found = derived_layout(weight, 2)
    assert found.axis == axis and reason in found.reason


BIASES = [
    (made("Dense", "bias", (512,), kernel=CutKernel((128, 512), 1)), 0),
    (made("Dense", "bias", (128,), kernel=CutKernel((512, 128), 0)), None),
    (made("Dense", "bias", (30,), kernel=CutKernel((20, 30), None)), None),
    (made("Dense", "bias", (30,)), None),
    (made("EinsumDense", "bias", (8, 64), kernel=CutKernel((256, 8, 64), 1), equation="abc,cde->abde"), 0),
    (made("EinsumDense", "bias", (64,), kernel=CutKernel((256, 8, 64), 1), equation="abc,cde->abde"), None),
    (made("EinsumDense", "bias", (1, 64), kernel=CutKernel((256, 8, 64), 1), equation="abc,cde->abde"), None),
    (made("EinsumDense", "bias", (256,), kernel=CutKernel((8, 64, 256), 0), equation="abcd,cde->abe"), None),
    (made("BaseConv", "bias", (128,), kernel=CutKernel((3, 3, 64, 128), 3)), 0),
    (made("BaseConvTranspose", "bias", (128,), kernel=CutKernel((3, 3, 128, 64), 2)), 0),
]


@pytest.mark.parametrize(("weight", "axis"), BIASES)
def test_a_bias_is_cut_with_the_outputs_of_its_kernel(weight: MadeWeight, axis: int | None) -> None:
    assert derived_layout(weight, 2).axis == axis


def test_a_pair_of_products_is_cut_in_its_middle() -> None:
    for inner in (512, 129):
        first, second = (made("Dense", "kernel", shape) for shape in ((128, inner), (inner, 128)))
        assert (derived_layout(first, 2).axis, derived_layout(second, 2).axis) == (1, 0)


def test_fewer_heads_than_workers_stay_whole() -> None:
    assert [derived_layout(into_heads(4), shares).axis for shares in (3, 4, 5)] == [1, 1, None]
