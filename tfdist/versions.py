"""The version of tfdist, and those of packages that are installed beside it; none is imported for that.

    >>> installed_version("tensorflow")
    '2.21.0'
"""

from __future__ import annotations

VERSION = "0.1.0"
"""The one place of it: setup.cfg and `tfdist --version` read it here, so that it is known in a source tree as well."""

OTHER_TENSORFLOWS = (
    *("tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "intel-tensorflow", "tensorflow-gpu", "tensorflow-rocm"),
)
"""Distributions that install `import tensorflow` under another name than `tensorflow`."""


def installed_version(package: str) -> str | None:
    """The version of what `import package` finds, from its metadata.

    Args:
        package: The name under which it is imported, such as `tensorflow`, which tensorflow-cpu and builds of vendors
            install, too.

    Returns:
        The version, such as `2.21.0`; that of `tfdist` is its source's. None where nothing of the name is installed.
    """
    if package == "tfdist":
        return VERSION
    # Imported here: `tfdist --help` reads no metadata.
    import importlib.metadata

    for name in (package, *(OTHER_TENSORFLOWS if package == "tensorflow" else ())):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    # Looks into every distribution, and takes long: for those alone that nobody has heard of.
    found = importlib.metadata.packages_distributions().get(package)
    return importlib.metadata.version(found[0]) if found else None
