"""Metrics of a running job for Prometheus, as `--metrics-port` serves them.

`run_metrics` is what the launcher knows of its job, with the names and values that are served. `metrics_endpoint` adds
what the chief writes into the run directory, and holds these together while a job runs; `metrics_server` answers
scrapes.
"""
