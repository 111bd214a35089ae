"""The process of `tfdist export`, which has TensorFlow: `python -m` this module, started by `inference/export`.

Its stdout is JSON, an object a line: `{"say": text}` while it works, and `{"result": {...}}`
or `{"error": text, "code": number}` at the end. Both ends run the same installation of tfdist.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from typing import Any, TextIO

from tfdist.bounded_process import question_of_parent
from tfdist.text import safe_str
from tfdist.training.export.export_request import ExportRequest


def main() -> None:
    """Exports, and answers."""
    request = pickle.loads(question_of_parent())
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
        from tfdist.training.supervision.error_report import explain

        known = explain(error, has_peers=False)
        said = str(known) if known is not None else f"{type(error).__name__}: {safe_str(error)}"
        tell(error=said, code=known.exit_code if known is not None else None, traceback=traceback.format_exc())


if __name__ == "__main__":
    main()
