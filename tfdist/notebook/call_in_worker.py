"""The program that every worker of a notebook's job runs: `python -m tfdist.notebook.call_in_worker FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from tfdist.notebook.call_folder import CallFolder
from tfdist.notebook.function_call import FunctionCall, write_result
from tfdist.training.api import is_chief


def main(folder: CallFolder) -> None:
    """Calls the function; what it returns on the chief is brought to the notebook."""
    call = FunctionCall.read(folder)
    result = call.function(*call.args)
    if is_chief():
        write_result(folder, result)


if __name__ == "__main__":
    main(CallFolder(Path(sys.argv[1])))
