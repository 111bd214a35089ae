"""The protocol between a worker and its launcher: JSON lines, one object each, over a socket that the worker inherits.

The worker sends:

- `{"beat": STATE}`: what it is doing, a `WorkerState`; at every change, and about once a second while it makes
  progress.
- `{"progress": PROGRESS}`: from the chief of a run from a config, a `RunProgress`, a few times a second; null when its
  training is over.
- `{"begun": N}`, the answer to `hold`: how many batches of training and evaluation it has begun since it started. It
  begins no other batch until it is told where to stop. `{"begun": null}` when it is not in `fit`, so that it has no
  step to stop at.
- `{"stacks": TEXT, "where": LINE, "called": LINE}`, the answer to `dump`: the Python stacks of its threads; where the
  main thread is, in one line; and where functions of the user run in other threads for it, which may be empty.
- `{"signal": N}`: it got a signal that is meant for the whole job, such as the SIGTERM that a scheduler sends to every
  process.
- `{"post": {"subject": TEXT, "content": {...}}}`: what the chief's process is to learn, whichever launcher has started
  that.
- `{"finished": CODE}`: its work is done.
- `{"failed": ERROR}`: the content of its error file, when that file cannot be written.

The launcher sends:

- `{"hold": true}`, then `{"stop": {"after": N, "code": CODE}}`: stop once N batches are done, the same on all workers;
  save a checkpoint if the run can, and exit with CODE.
- `{"dump": true}`: say where you are. A worker that does not answer gets the signal `NATIVE_DUMP`.
- `{"post": {...}}`: to the chief, what another worker has posted.
- `{"release": true}`: every worker of the job is done, so you may leave. A TensorFlow worker that leaves before the
  others takes them down.

The end of the stream before `release` means that the launcher is gone.
"""

from __future__ import annotations

import signal

CALLED = " (called by TensorFlow or Keras)"
"""Follows the names of those threads, in the stacks, that run the user's functions for the main thread."""

NATIVE_DUMP: int | None = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
"""The signal on which a worker writes its stacks into its log even while native code holds the GIL.

The handler walks over the stacks without the GIL, so a worker whose threads are running Python may end in SIGSEGV.
Scripts keep the better known signals. None on systems without real-time signals.
"""
