"""Sockets, ports and meetings between processes on different machines; never blocks, never loads TensorFlow.

Two processes meet so: each takes the ports of its workers (`port_reservation`), answers there (`hello_listener`) and
dials the others (`connector`, by `connection_attempts`). Both sides say who they are (`hello`) in one `handshake`, and
prove that they share a token if there is one (`shared_token`). What follows are messages over the line (`line_socket`);
`bounded_wait` waits for whatever is ready first.

The launchers of a job meet so when the cluster forms (`launch.rendezvous`), and so do the doctors of several hosts
(`doctor.mesh`).

The workers of one host talk over `host_links`, which their launcher makes, and those of some of them one of them.
"""
