"""Rendezvous: the launchers of one job find one another, agree, and start together.

`cluster_formation.form` is the entry point. `peer_discovery` listens for the other launchers and dials those of its
`dial_plan`, a bounded number at a time; `hello_agreement` checks that what they say of themselves fits
together. The chief's launcher keeps the lines to all others (`followers`), as many as its `descriptor_limit` allows,
tells them who is here (`overview`), and says go at the `join_barrier` once none misses another. Until then, and in the
error when that takes too long, `missing_workers` says why a worker has not joined. `config_agreement` checks that all
launchers were given the same config, and `kernel_agreement` lets their workers compute by the same kernels.
"""
