"""The thread in which a worker draws global batches for all workers of its host."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from numpy.typing import NDArray

from tfdist.runtime.batches.host_feed.batch_notes import FailureNote
from tfdist.runtime.batches.host_feed.batch_sender import BatchSender, ReadersLeft

JOIN_SECONDS = 10.0
"""Seconds that the end of an iterator waits for a batch that is being made. TensorFlow's own waits without a bound."""

_log = logging.getLogger("tfdist")


class Drawing:
    """Draws batches until there are none, one cannot be made, or the drawing worker's own reader hangs up.

    Args:
        batches: The arrays of each batch. Nobody else uses the iterator.
        rows: The samples of a batch.
        failure_of: Describes an error that the iterator has raised.
        readers: As `BatchSender` takes them.
    """

    def __init__(
        self,
        batches: Iterator[Sequence[NDArray]],
        rows: Callable[[Sequence[NDArray]], int],
        failure_of: Callable[[Exception], FailureNote],
        readers: Sequence[socket.socket],
    ) -> None:
        self._batches: Iterator[Sequence[NDArray]] | None = batches
        self._rows = rows
        self._failure_of = failure_of
        self._sender = BatchSender(readers)
        self._thread = threading.Thread(target=self._draw, name="tfdist-drawing", daemon=True)

    def start(self) -> None:
        """Starts the thread, once."""
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> None:
        """Waits until the thread, whose own reader has hung up, has ended; not much longer than for one batch."""
        if self._thread.ident is None:
            self._close()
        elif self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
            if self._thread.is_alive():
                _log.warning(
                    "The input pipeline is still making a batch that nobody needs, after %.0f s. It is left alone.",
                    JOIN_SECONDS,
                )

    def _draw(self) -> None:
        try:
            self._send_all()
        except ReadersLeft:
            return
        finally:
            self._close()

    def _send_all(self) -> None:
        assert self._batches is not None
        largest = 0
        try:
            for arrays in self._batches:
                largest = max(largest, self._rows(arrays))
                self._sender.send(arrays, largest)
        except ReadersLeft:
            raise
        except Exception as error:  # Whatever the script's pipeline raises is every worker's to raise.
            self._sender.fail(self._failure_of(error))
        else:
            self._sender.end()

    def _close(self) -> None:
        self._sender.close()
        # TensorFlow's iterator goes here, in the thread that has used it, and not when the channel goes.
        self._batches = None
