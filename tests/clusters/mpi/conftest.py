from __future__ import annotations

from tests.clusters.ssh.conftest import ssh_hosts

__all__ = ["ssh_hosts"]
