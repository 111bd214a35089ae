"""Mesh: the doctors of several hosts meet, measure the connections between them, and exchange what they found.

`connection_checks.check_connections` is the entry point: it takes this machine's ports and runs the `mesh`, which
decides when a connection is known and makes a `pair` of it, the result. Doctors meet as launchers do, by the listener,
the connector and the handshake in `net`; `doctor_hello` is what they say of themselves. Over each `doctor_link` the
line is measured (`link_measurement`). For a worker that was not met, `dial_advice` has the words.
`known_pairs` collects the pairs of all doctors.
"""
