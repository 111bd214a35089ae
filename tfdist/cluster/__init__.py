"""The cluster of a job: the ordered list of its workers, and which of them run on this machine.

`discover` is the entry point. It takes the command line, `tf_config`, `kubernetes`, `mpi` or `slurm`, in this order,
and returns a `membership`: the cluster as a `cluster_spec`, with the workers that this launcher starts. For that it
finds the entries that are this machine, and `ports` chooses ports. `slurm` also tells whose GPUs a task sees, and which
nodes a launch may use. `interfaces` lists the machine's addresses, and `environment_variables` those that affect a run,
for reports, and what one host gives another.
"""

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.cluster.discover import discover
from tfdist.cluster.membership import Membership
from tfdist.cluster.tf_config import parse_tf_config, tf_config, tf_config_json, tf_config_shell

__all__ = [
    "Address",
    "Cluster",
    "Membership",
    "discover",
    "parse_tf_config",
    "tf_config",
    "tf_config_json",
    "tf_config_shell",
]
