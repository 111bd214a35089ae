"""`tfdist launch`: starts a training on every host of an engine, by one command; `tfdist stop` ends one.

    launch_verb        the verb: its options, and the engine that it calls
    train_arguments    options of `tfdist train` that the verb takes as well, and how a host is told of them
    engine_options     the options of the engines, and which belongs to which
    engines            the engines that --on offers, each imported when it is used
    engine_call        what an engine is called with
    on_mpi             --on mpi
    on_ssh             --on ssh
    stop_verb          `tfdist stop`
    on_ray             --on ray
    on_slurm           --on slurm
    bound_launcher     `tfdist` as a process that ends with its stdin

To add an engine: a module `on_NAME` with one function, which takes an `EngineCall` and returns the exit code; a line in
`engines`; its options in `engine_options`.
"""
