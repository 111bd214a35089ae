"""Conversation between the launchers of one job, from the start of the workers to the end of the job.

`coordinator` is what the rest of a launcher sees of it: events come and go. `messages` are those events, their form on
the line, and how often states are sent; `peer_links` are the lines, a star around the launcher that has the chief, and
tell who says nothing any more. `root_cause` is the one of all workers from which the others follow.
"""
