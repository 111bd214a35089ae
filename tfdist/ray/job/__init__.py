"""`tfdist launch --on ray`: one launcher a node, in an actor, for the workers that a placement group has there.

`ray_job` says what is asked for and runs it. It has a `placement` made, which gives each node its workers in the order
of the ranks; of the `actors`, one on each machine chooses ports and runs `tfdist train` in a process that ends with it.
`driving` hears them all until the last has ended, and says what came of it.
"""
