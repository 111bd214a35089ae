from __future__ import annotations

import json

from tests.helpers.ledger_lines import killed_once
from tfdist.reports.ledger import account_json
from tfdist.reports.ledger.account_reader import build_account
from tfdist.rundir.ledger_lines import TimeKind


def test_the_document_adds_up() -> None:
    account = build_account(killed_once())
    assert account is not None
    made = json.loads(json.dumps(account_json.to_json("digits", "/runs/a", account)))
    assert set(made["seconds"]) == {kind.value for kind in TimeKind}
    assert abs(sum(made["seconds"].values()) - made["wall"]) < 1e-9
    assert made["goodput"] == made["seconds"]["step"] / made["wall"]
    assert [attempt["why"] for attempt in made["attempts"]] == ["worker 1: killed by SIGKILL", ""]
