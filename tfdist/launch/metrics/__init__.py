"""Metrics of a running job for Prometheus, as `--metrics-port` serves them.

The launcher tells `run_metrics` what it sees, and a thread of `metrics_endpoint` what the chief writes into the run
directory. `metric_families` names and describes what is served, without a library; `metrics_server` answers scrapes.
`metrics_endpoint` holds these together while a job runs.
"""
