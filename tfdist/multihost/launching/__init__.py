"""The host that launches: from what is launched on many hosts to its exit code, over any kind of link.

    host_launch     connect, check, start the cluster that the hosts' answers make, watch, or leave the run to the hosts
    host_link       what one host says and is told; by ssh (`multihost.ssh`) or a rank of mpirun (`multihost.mpi`);
                    and what is wrong with hosts before anything starts, each cause once
    host_group      all of them at once: who has answered, ended, is lost, and who is told to stop
    run_watch       sees a run that has started to its end on all hosts
    start_again     brings lost hosts of an elastic run back, and starts all anew where the chief's was lost
    output_display  lines with the names of their hosts, and one report of a failure for all
    protocol        the messages to and from `multihost.remote`, as lines of JSON
"""
