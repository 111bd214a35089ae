"""Recurrent layers and their cells."""

from __future__ import annotations

import keras

from tests.exactness.keras_classes.rows import Row, layer

layers = keras.layers


def _of_cell(name: str) -> Row:
    """A cell in a layer that calls it."""
    return Row(f"layers.{name}", lambda: layers.RNN(getattr(layers, name)(3)), "sequence")


ROWS = (
    Row("layers.Bidirectional", lambda: layers.Bidirectional(layers.GRU(3)), "sequence"),
    layer("ConvLSTM1D", "lines", 2, 2),
    layer("ConvLSTM2D", "film", 2, 2),
    layer("ConvLSTM3D", "films", 2, 2),
    layer("GRU", "sequence", 3),
    layer("LSTM", "sequence", 3),
    layer("SimpleRNN", "sequence", 3),
    Row("layers.RNN", lambda: layers.RNN(layers.LSTMCell(2), return_sequences=True), "sequence"),
    *map(_of_cell, ("GRUCell", "LSTMCell", "SimpleRNNCell")),
    Row("layers.StackedRNNCells", lambda: layers.RNN(
        layers.StackedRNNCells([layers.GRUCell(3), layers.LSTMCell(2)])), "sequence"),
)  # fmt: skip
