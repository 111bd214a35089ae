"""Ranks of mpirun, by the variables that it sets for each.

    open_mpi     Open MPI
    hydra        MPICH and Intel MPI, and ranks that PMIx alone knows
    mpi_ranks    the ranks of one machine as a cluster
"""
