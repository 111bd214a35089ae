"""`tfdist train` on many hosts by mpirun, of Open MPI, MPICH or Intel MPI.

mpirun starts one rank a host, which calls the launching host back and becomes the remote end of `multihost.remote`:
what follows is the same as over ssh. The ranks end with 0 whatever becomes of the training, as mpirun would end all
others with the first that does not.

    mpirun_command    whose mpirun it is, and how it is called
    rank_link         where ranks call back, and the link to one host by its rank's connections; mpirun while it runs
    rank_end          what mpirun starts on a host
    call_back         what both sides of such a call say, and how they prove that they belong together
"""
