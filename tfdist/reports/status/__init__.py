"""What a run is doing, from its run directory alone: for `tfdist status`."""
