from __future__ import annotations

from pathlib import Path

from tfdist.selftest.row_log import RowDone, RowOrder, RowsRun, begin_line, done_line, log_file, read_log


def test_an_order_is_read_as_it_was_written() -> None:
    order = RowOrder("/a folder/ü", ("dense", "masks"), "/saved.keras")
    assert RowOrder.of(order.to_argument()) == order


def test_notes_of_a_worker_that_was_killed(tmp_path: Path) -> None:
    done = RowDone("dense", range(0, 2), 1.5, {"pairs": []})
    file = log_file(tmp_path, 1)
    file.write_text(begin_line("dense") + done_line(done) + begin_line("masks") + '{"name": "ma')
    assert read_log(file) == RowsRun((done,), "masks")


def test_notes_of_a_worker_that_finished(tmp_path: Path) -> None:
    done = RowDone("dense", range(0, 1), 1.5)
    file = log_file(tmp_path, 0)
    file.write_text(begin_line("dense") + done_line(done))
    assert read_log(file) == RowsRun((done,), None)


def test_a_worker_that_came_to_no_row(tmp_path: Path) -> None:
    assert read_log(log_file(tmp_path, 0)) == RowsRun()
