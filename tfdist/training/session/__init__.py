"""The session: what one worker process trains with, made once.

`current_session` holds the one of the process and starts it. It makes a `worker_context` from what the launcher or the
environment says; `session_setup` makes the `session` from that, with a place for `generated_code`, waits until all
workers joined, and finds what its devices have for a training. `session_description` puts it into words.
"""
