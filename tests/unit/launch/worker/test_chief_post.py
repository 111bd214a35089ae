"""Post to the chief: read by its subject, in its order, and never more than can be kept."""

from __future__ import annotations

from typing import Any

from tfdist.launch.worker.chief_post import MOST_UNREAD, ChiefPost


def letter(subject: str, number: int) -> dict[str, Any]:
    return {"subject": subject, "content": {"number": number}}


def test_what_was_told_is_read_once_by_its_subject() -> None:
    post = ChiefPost()
    for number in range(3):
        post.deliver(letter("a", number))
        post.deliver(letter("b", number))
    post.deliver({"subject": "a", "content": None})
    assert post.read("a") == [{"number": number} for number in range(3)]
    assert post.read("a") == [] and len(post.read("b")) == 3


def test_a_worker_without_a_launcher_has_no_post() -> None:
    post, sent = ChiefPost(), []
    assert not post.tell("a", {})
    post.connect(lambda told: not sent.append(told))
    assert post.tell("a", {"number": 1}) and sent == [letter("a", 1)]
    post.connect(lambda told: False)
    assert not post.tell("a", {})


def test_what_nobody_reads_does_not_grow() -> None:
    post = ChiefPost()
    for number in range(MOST_UNREAD + 5):
        post.deliver(letter("a", number))
    assert [content["number"] for content in post.read("a")][::MOST_UNREAD - 1] == [5, MOST_UNREAD + 4]
