"""The process of `tfdist export`, which has TensorFlow: `python -m` this module, started by `inference/export`.

Its stdin brings the request, pickled, behind 8 bytes of its length, and is held open: when it ends, this process does,
with what it has started. Its stdout is JSON, an object a line: `{"say": text}` while it works, and `{"result": {...}}`
or `{"error": text, "code": number}` at the end. Both ends run the same installation of tfdist.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from typing import Any, TextIO

from tfdist.text import safe_str
from tfdist.training.export.export_request import ExportRequest

LENGTH_BYTES = 8


def main() -> None:
    """Exports, and answers."""
    length = int.from_bytes(os.read(0, LENGTH_BYTES), "big")
    content = b""
    while len(content) < length and (part := os.read(0, length - len(content))):
        content += part
    request = pickle.loads(content)
    threading.Thread(target=_end_with_parent, name="tfdist-parent", daemon=True).start()
    # What libraries print must not mix with the answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    _answer(request, answers)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that the user's code has left must not keep the command waiting


def _answer(request: ExportRequest, answers: TextIO) -> None:
    def tell(**message: Any) -> None:
        print(json.dumps(message), file=answers)

    try:
        # Imported here, as it takes seconds.
        from tfdist.training.export.export_steps import export
        from tfdist.training.session.generated_code import generated_code_apart

        with generated_code_apart():
            tell(result=export(request, lambda text: tell(say=text)))
    except BaseException as error:  # noqa: BLE001 - the other end tells the user
        from tfdist.training.supervision.exception_causes import explain

        known = explain(error, has_peers=False)
        said = str(known) if known is not None else f"{type(error).__name__}: {safe_str(error)}"
        tell(error=said, code=known.exit_code if known is not None else None, traceback=traceback.format_exc())


def _end_with_parent() -> None:
    """Waits for the end of standard input, which comes when the parent process is gone."""
    os.read(0, 1)
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGKILL)  # this process leads a group of its own


if __name__ == "__main__":
    main()
