"""`tfdist launch`: starts a training on every host of an engine, by one command; `tfdist stop` ends one.

    launch_verb        the verb: its options, those of the engines and of `tfdist train`, and the engine that it calls
    engines            the engines that --on offers, each imported when it is used, and what it is called with
    on_mpi             --on mpi
    on_ssh             --on ssh
    stop_verb          `tfdist stop`
    on_ray             --on ray
    on_slurm           --on slurm
    bound_launcher     `tfdist` as a process that ends with its stdin

To add an engine: a module `on_NAME` with one function, which takes an `EngineCall` and returns the exit code; a line in
`engines`; its options in `launch_verb`.
"""
