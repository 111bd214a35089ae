"""Training on many hosts by one command: what `tfdist launch` does, and the manifests of `tfdist manifest`.

    hosts          which hosts, and which of their slots: hostfiles and filters
    launching/     `tfdist train` on every host: what the launching host does, and
    remote/        what runs on each of the others;
    ssh, mpi/      how they reach one another: by the user's own ssh, or by mpirun
    slurm/         a job of Slurm's, or a step in an allocation
    kubernetes/    manifests, by which Kubernetes starts a training in pods

Nothing here imports TensorFlow: it runs where no training does.
"""
