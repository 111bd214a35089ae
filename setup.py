"""What setup.cfg cannot say: the wheel carries the examples, and its description links to where the source is."""

from __future__ import annotations

import configparser
import re
import runpy
import shutil
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build import build

TREE = Path(__file__).resolve().parent


class BuildExamples(Command):
    """Puts configs/ and examples/ into the package, as `tfdist/examples/files`; setuptools calls it within `build`."""

    description = "copy the examples into the package"
    user_options: list[tuple[str, str, str]] = []

    def initialize_options(self) -> None:
        self.build_lib: str | None = None
        self.editable_mode = False

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))
        files = runpy.run_path(str(TREE / "tfdist" / "examples" / "example_files.py"))["example_files"]
        self.files = [str(path) for path in files(TREE)]

    def get_source_files(self) -> list[str]:
        return self.files

    def get_outputs(self) -> list[str]:
        return list(self.get_output_mapping())

    def get_output_mapping(self) -> dict[str, str]:
        return {str(Path(self.build_lib or "", "tfdist", "examples", "files", name)): name for name in self.files}

    def run(self) -> None:
        # An editable installation reads them where they are.
        for output, source in {} if self.editable_mode else self.get_output_mapping().items():
            Path(output).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TREE / source, output)


class Build(build):
    sub_commands = [*build.sub_commands, ("build_examples", None)]


def description() -> str:
    """README.md, whose links to files a package index cannot follow: they lead to the source, at `url` of setup.cfg.

    Without `url` only their texts stay: no link leads nowhere.
    """
    metadata = configparser.ConfigParser()
    metadata.read(TREE / "setup.cfg", encoding="utf-8")
    version = runpy.run_path(str(TREE / "tfdist" / "versions.py"))["VERSION"]
    url = metadata["metadata"].get("url", "").rstrip("/")

    def rewritten(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = f"README.md{target}" if target.startswith("#") else target
        return f"[{text}]({url}/blob/v{version}/{path})" if url else text

    readme = (TREE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]\n]+)\]\((?!https?://|mailto:)([^)\s]+)\)", rewritten, readme)


setup(
    cmdclass={"build": Build, "build_examples": BuildExamples},
    long_description=description(),
    long_description_content_type="text/markdown",
)
