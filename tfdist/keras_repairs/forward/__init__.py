"""Layers, losses and metrics on a replica's slice of the global batch.

- `batch_normalization`, over `batch_moments`, of slices `sliced_moments`: statistics of the global batch
- `batch_histograms`: of images, by which `Equalization` changes them
- `xla`: the forward and backward pass compiled with XLA
- `strided_convolutions`: a gradient with which oneDNN overwrites memory where rows are odd; `empty_batches`: what
  it cannot compute of no row
- `added_losses`, of activity regularizers, too, and `loss_reduction`, also by the functions by which loops written by
  hand divide their losses: each replica's summand of the loss of the global batch
- `metrics`, `metric_additivity`, `metric_draws`: metrics that are sums over samples, and how that is found out;
  `metric_scope`: what is known where a metric's code runs, and which of its arguments are rows
- `log_origins`: what a step logs, told by what it is computed from
- `metric_results`: results of metrics in a step, over all replicas where the step computes with them
- `global_batch_metrics`: metrics that are not, on the rows of all replicas; `gathering`: `tfdist.gathered`
"""
