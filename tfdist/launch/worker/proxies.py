"""Workers speak to one another without the proxies that the environment names for other connections."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.cluster import Cluster

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Where gRPC looks for one, which TensorFlow's workers speak by; it knows no host that would be exempt by itself."""


def proxy_settings(environ: Mapping[str, str], cluster: Cluster) -> dict[str, str]:
    """What to add to a worker's environment; nothing where no proxy is named.

    Args:
        environ: The environment that the worker would have.
        cluster: All workers.
    """
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    # The first of the two that is set counts, and `no_proxy` is for other libraries, too.
    exempt = environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""
    hosts = dict.fromkeys(address.host for address in cluster.workers)
    return {"no_grpc_proxy": ",".join([*filter(None, [exempt]), *hosts])}
