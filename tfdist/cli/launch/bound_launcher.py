"""A launcher that ends with whoever started it: `python -m tfdist.cli.launch.bound_launcher train ...`.

Its stdin is a pipe that, say, an actor of Ray's holds open and writes nothing to. When the actor is gone, killed or
with its driver, the pipe ends, and the job is stopped as by SIGTERM. Otherwise it is the command `tfdist`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from tfdist.cli.main import main


def stop_with_stdin() -> None:
    """Sends this process a SIGTERM when its stdin ends, and lets signals reach it that who started it does not take."""
    # Ray's workers block SIGINT, and a child inherits that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    line = os.dup(0)
    # One worker alone has the standard input of its launcher, and a script that reads it must find its end there.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_wait_for_end, args=(line,), name="actor-watch", daemon=True).start()


def _wait_for_end(line: int) -> None:
    while os.read(line, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    stop_with_stdin()
    sys.exit(main(prog_name="tfdist"))
