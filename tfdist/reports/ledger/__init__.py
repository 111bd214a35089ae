"""Where the wall time of a run went, from its ledger alone: for `tfdist ledger`."""
