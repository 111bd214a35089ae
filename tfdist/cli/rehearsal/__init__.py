"""Mere trials: `first_fit` of a script, which `tfdist plan` shows, and a `fast_dev_run` of `tfdist train`."""
