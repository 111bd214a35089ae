"""Elastic jobs: the job goes on with fewer hosts when one is lost, and takes in those that come back.

`--workers` is then the list of candidates. The job is a sequence of `generation`s, each of which is a job as any other,
of those candidates whose launchers are there. `elastic_job` is the entry point. The chief's launcher alone decides, the
`leader`: by the `gathering` it keeps its port open, and the `membership_policy` says when who is there is enough, and
who stays out for some time after it was lost. Each other is a `follower`, and knocks there. `elastic_options` are what
the user asks for, and what cannot be had is refused there.
"""
