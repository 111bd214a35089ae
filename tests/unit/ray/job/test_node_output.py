from __future__ import annotations

import pytest

from tfdist.ray.job.node_output import NodeOutput, OwnStreams


def test_the_chiefs_output_is_written_as_it_comes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = NodeOutput(OwnStreams(), None)
    output.write(1, b"\x1b[2K 10 %")
    output.write(2, b"a warn")
    assert capfdbinary.readouterr() == (b"\x1b[2K 10 %", b"a warn")


def test_lines_of_others_begin_with_their_node(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = NodeOutput(OwnStreams(), "h2")
    output.write(1, b"one\ntw")
    output.write(1, b"o\nthr")
    assert capfdbinary.readouterr().out == b"[h2] one\n[h2] two\n"
    output.end()
    assert capfdbinary.readouterr().out == b"[h2] thr\n"


def test_errors_of_others_are_told_at_the_end_but_for_what_the_chief_said(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    streams = OwnStreams()
    chief, other = NodeOutput(streams, None), NodeOutput(streams, "h2")
    chief.write(2, b"error: worker 1 failed\n")
    other.write(2, b"error: worker 1 failed\nthe disk of h2 is full\n")
    assert capfdbinary.readouterr().err == b"error: worker 1 failed\n"
    other.tell_errors(chief.errors)
    assert capfdbinary.readouterr().err == b"[h2] the disk of h2 is full\n"
