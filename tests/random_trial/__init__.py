"""Random trainings, each on several replicas and on one: what nobody thought of putting into `tests/exactness`.

A seed stands for a draw: layers, losses, metrics, an optimizer, data and options of `compile` and `fit`. A draw is
written as an ordinary script, which is run on one replica and on several of one process, or on as many workers. What
differs is made as small as it can be and printed as a script that shows it. In the order of a trial:

- `draw`: what a draw consists of.
- `own_parts`: layers and losses as people write them themselves; scripts contain their source.
- `own_metrics`, `own_steps`: metrics, steps and optimizers of that kind.
- `layer_parts`, `head_parts`, `optimizer_parts`, `step_parts`: what is drawn from.
- `drawing`: from a seed to a draw.
- `script`: from a draw to the source of a script.
- `runs`: runs a script on one replica and on several.
- `judging`: whether the numbers are the same, and whether they can be expected to be.
- `refusals`: what tfdist may refuse.
- `shrinking`: the smallest draw that fails alike.
- `child`: a process that tries one seed after another; it is replaced when it hangs or dies.
- `trial`: the whole, bounded in time, and its report.

`python -m tests.random_trial --seed N` tries one draw, `--minutes N` as many as fit; `--show` prints the script only.
"""
