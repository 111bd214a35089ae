"""Conversation between the launchers of one job, from the start of the workers to the end of the job.

`coordinator` is what the rest of a launcher sees of it: events come and go. `messages` are those events and their form
on the line; `peer_links` are the lines, a star around the launcher that has the chief, and `silence` tells who says
nothing any more. `root_cause` is the one of all workers from which the others follow. `remote_states` keeps what
launchers say of their workers in the chief's run directory, and `beat_interval` says how often they do in large jobs.
"""
