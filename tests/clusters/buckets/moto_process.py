"""A moto server on a free port, which it prints, for as long as its stdin is open."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer


def main() -> None:
    """Serves until whoever started this process closes its stdin, also by being killed."""
    _put_one_after_another()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    server.stop()


def _put_one_after_another() -> None:
    """Makes conditional writes what they are in S3: moto looks for an object and writes it in two steps, in threads."""
    put, lock = S3Response.put_object, threading.Lock()

    def put_alone(self: Any) -> Any:
        with lock:
            return put(self)

    S3Response.put_object = put_alone


if __name__ == "__main__":
    main()
