from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.verify.replicas.verify_spec import VerifySpec


def test_something_must_be_compared() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        VerifySpec("script", "train.py", "train", replicas=1)
