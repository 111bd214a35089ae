from __future__ import annotations

import pytest

from tfdist.cluster import Cluster, Membership
from tfdist.doctor.check_result import CheckStatus
from tfdist.doctor.machine.environment_checks import check_cluster, check_variables
from tfdist.errors import ClusterError


@pytest.mark.parametrize(
    ("found", "status", "text"),
    [
        (Membership(None, (0,)), CheckStatus.OK, "the default: one worker"),
        (
            Membership(Cluster.parse("a:20000,b:20000"), (1,), source="TF_CONFIG"),
            CheckStatus.OK,
            "2 workers, from TF_CONFIG; worker(s) 1 here: a:20000,b:20000",
        ),
        (ClusterError("TF_CONFIG is not valid JSON."), CheckStatus.FAIL, "TF_CONFIG is not valid JSON."),
    ],
)
def test_who_takes_part(found: Membership | ClusterError, status: CheckStatus, text: str) -> None:
    check = check_cluster(found)
    assert (check.status, check.code) == (status, 2)
    assert text in check.found


@pytest.mark.parametrize(
    ("environ", "statuses", "text"),
    [
        ({}, [CheckStatus.OK], "no variable"),
        ({"NCCL_DEBUG": "INFO"}, [CheckStatus.OK], "NCCL_DEBUG=INFO"),
        ({"TF_CONFIG": "x" * 1000}, [CheckStatus.OK], "x..."),
        ({"TF_USE_LEGACY_KERAS": "1"}, [CheckStatus.OK, CheckStatus.FAIL], "Keras 2"),
        ({"TF_USE_LEGACY_KERAS": "0"}, [CheckStatus.OK], "TF_USE_LEGACY_KERAS=0"),
        ({"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "True"}, [CheckStatus.OK, CheckStatus.FAIL], "weights of the first step"),
        ({"KERAS_BACKEND": "tensorflow"}, [CheckStatus.OK], "KERAS_BACKEND=tensorflow"),
        ({"KERAS_BACKEND": "jax"}, [CheckStatus.OK, CheckStatus.FAIL], "KERAS_BACKEND is jax"),
        ({"KERAS_BACKEND": ""}, [CheckStatus.OK], "KERAS_BACKEND="),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, [CheckStatus.OK, CheckStatus.WARN], "hides every GPU"),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, [CheckStatus.OK], "CUDA_VISIBLE_DEVICES=1,0"),
    ],
)
def test_variables(environ: dict[str, str], statuses: list[CheckStatus], text: str) -> None:
    checks = check_variables(environ)
    assert [check.status for check in checks] == statuses
    assert text in checks[-1].found
