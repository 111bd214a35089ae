"""Every layer, loss, metric and optimizer class that Keras exports, one row each, on one replica and on several.

- `exported`: what Keras exports; `rows`: what is in a row
- `data`: the inputs and targets that rows ask for
- `layer_rows`, `recurrent_rows`, `random_rows`, `loss_rows`, `metric_rows`, `optimizer_rows`: the rows
- `table`: all rows together, and those without a run
- `models`: models of many rows at once, each row with numbers of its own
- `outcomes`: runs them
"""
