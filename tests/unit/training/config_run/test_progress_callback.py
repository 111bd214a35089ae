"""What the callback of a config's run knows of the running epoch."""

from __future__ import annotations

from tfdist.order.epoch_span import EpochSpan
from tfdist.training.config_run.progress_callback import ProgressCallback


def test_the_running_epoch() -> None:
    callback = ProgressCallback(2, EpochSpan(64, 32), announce=lambda line: None)
    assert callback.state is None
    callback.on_epoch_begin(1)
    state = callback.state
    assert state is not None and (state.epoch, state.logs, state.last_step, state.rest) == (1, {}, None, 0.0)
    callback.on_train_batch_end(0, {"loss": 0.5})
    callback.on_test_batch_end(4, {"loss": 0.75})
    state = callback.state
    assert state is not None and (state.logs, state.validated) == ({"loss": 0.5}, 5)
    assert state.last_step is not None
    callback.on_epoch_end(1, {"loss": 0.5})
    callback.on_epoch_begin(2)
    state = callback.state
    assert state is not None and (state.epoch, state.logs, state.validated, state.last_step) == (2, {}, 0, None)
    assert state.rest > 0  # the end of the epoch before
    assert callback.first == 1
