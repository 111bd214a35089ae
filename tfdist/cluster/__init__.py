"""Who takes part in a job: worker lists, TF_CONFIG, this machine's share of them, and schedulers."""

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
