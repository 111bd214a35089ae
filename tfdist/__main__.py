"""`python -m tfdist` is `tfdist`."""

from __future__ import annotations

from tfdist.cli.main import main

if __name__ == "__main__":
    main(prog_name="tfdist")
