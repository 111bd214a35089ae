"""Mesh: the doctors of several hosts meet, measure the connections between them, and exchange what they found.

`mesh.check_connections` is the entry point: it takes this machine's ports, decides when a connection is known and makes
a `pair` of it, the result, with advice on a worker that was not met. Doctors meet as launchers do, by the listener, the
connector and the handshake in `net`. A `doctor_link` knows what they say of themselves; over each the line is measured
(`link_measurement`).
"""
