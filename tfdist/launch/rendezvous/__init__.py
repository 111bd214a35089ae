"""Rendezvous: the launchers of one job find one another, agree, and start together.

`cluster_formation.form` is the entry point. `peer_discovery` listens for the other launchers and dials those that it is
to meet, a bounded number at a time. The chief's launcher keeps the lines to all others (`followers`), tells them who is
here, and says go at the `join_barrier` once none misses another. Until then, and in the error when that takes too long,
`missing_workers` says why a worker has not joined. By the `hello_agreement` all have the same cluster and versions.
"""
