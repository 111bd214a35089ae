"""What tfdist may refuse of the drawn trainings; any other refusal is a finding."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.random_trial.draw import Draw


@dataclass(frozen=True)
class Refusal:
    """One that `docs/exactness.md` announces.

    Attributes:
        line: What its first line contains.
        needs: An option of `compile` without which it is a finding, or nothing.
        loss: What a loss contains without which it is a finding, or nothing.
    """

    line: re.Pattern[str]
    needs: str = ""
    loss: str = ""


EXPECTED = (
    Refusal(re.compile("jit_compile=True"), needs="jit_compile"),
    Refusal(re.compile(r"a draw of shape .* in a step with \d+ rows"), needs="run_eagerly"),
    Refusal(re.compile(r"tf\.random .* was called with a seed in a step that XLA compiles"), needs="jit_compile"),
    Refusal(re.compile(r"tf\.random .* was called with a seed outside of the compiled steps"), needs="run_eagerly"),
    # Its value a sample is multiplied with the mask of the steps, which fails but for batches of as many samples.
    Refusal(re.compile(r"could not be tried out .*Incompatible shapes"), loss="CTC"),
)


def is_expected(draw: Draw, line: str) -> bool:
    """Whether a refusal of this draw, with this first line, is one that the documentation announces."""
    options = {"", *(name for name, _ in draw.compiled)}
    losses = " ".join(head.loss for head in draw.heads)
    return any(
        refusal.needs in options and refusal.loss in losses and refusal.line.search(line) for refusal in EXPECTED
    )
