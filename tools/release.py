"""Makes the files of a release, tries them as a user would, and uploads nothing.

    pip install -e ".[release]"
    python -m tools.release          # from the root, into dist/; takes some minutes, as it installs TensorFlow

The version is that of tfdist/versions.py. CHANGELOG.md must have a section of it, with its date and nothing left under
[Unreleased], and the checkout must be clean. The source distribution is built from what git tracks, the wheel from the
source distribution; both are checked, the wheel is installed into an empty environment, and the README run from it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from tfdist.examples.example_files import example_files
from tfdist.versions import VERSION
from tools.readme_commands import commands, run_all

TREE = Path(__file__).resolve().parents[1]


def tracked(tree: Path) -> list[str]:
    """The files that git tracks and that are there, relative to the tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=tree, check=True, capture_output=True, text=True, timeout=60)
    return [name for name in listed.stdout.split("\0") if name and (tree / name).is_file()]


def unready(tree: Path, version: str) -> list[str]:
    """What stands against a release of a checkout, one text each."""
    status = ["git", "status", "--porcelain"]
    changed = subprocess.run(status, cwd=tree, check=True, capture_output=True, text=True, timeout=60).stdout
    found = changelog_problems((tree / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if changed:
        found.append(f"the checkout has changes that are not committed:\n{changed.rstrip()}")
    tagged = ["git", "tag", "--list", f"v{version}"]
    if subprocess.run(tagged, cwd=tree, check=True, capture_output=True, text=True, timeout=60).stdout:
        found.append(f"there is a tag v{version} already: raise VERSION in tfdist/versions.py")
    return found


def changelog_problems(text: str, version: str) -> list[str]:
    """What a changelog lacks for the release of a version, one text each."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    sections = {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in parts}
    dated = [head for head in sections if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", head)]
    found = []
    if not dated:
        found.append(f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD' for the version of tfdist/versions.py")
    elif not re.search(r"^- ", sections[dated[0]], re.MULTILINE):
        found.append(f"the section of {version} in CHANGELOG.md is empty")
    if re.search(r"^- ", sections.get("[Unreleased]", ""), re.MULTILINE):
        found.append(f"CHANGELOG.md has entries under [Unreleased]: move them to the section of {version}")
    return found


def next_step(against: list[str], version: str, output: Path) -> str:
    """What to do with files that are built and tried: not to publish those of a rehearsal, said at its end, too."""
    if against:
        return f"This was a rehearsal: do not publish these files. Still to mend, as said at the start: {len(against)}."
    return f"next: git tag v{version} && git push origin v{version} && twine upload {output}/*"


def build(tree: Path, output: Path, isolated: bool = True) -> tuple[Path, Path]:
    """Builds the source distribution from the tracked files, and the wheel from the source distribution.

    Args:
        tree: A checkout.
        output: Where to; must not have files of another build.
        isolated: Whether the newest build tools are fetched, rather than those of this environment taken.

    Returns:
        The paths of the source distribution and of the wheel.
    """
    with tempfile.TemporaryDirectory(prefix="tfdist-build-") as folder:
        for name in tracked(tree):
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / name, Path(folder, name))
        options = [] if isolated else ["--no-isolation"]
        _call(sys.executable, "-m", "build", "--outdir", output.resolve(), *options, folder, cwd=folder)
    (sdist,), (wheel,) = output.glob("tfdist-*.tar.gz"), output.glob("tfdist-*.whl")
    return sdist, wheel


def content_problems(tree: Path, sdist: Path, wheel: Path) -> list[str]:
    """What the two lack, or have too much, against the tracked files; one text each."""
    names = tracked(tree)
    examples = {str(path) for path in example_files(tree)} & set(names)
    modules = {name for name in names if name.startswith("tfdist/")}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
    found = _differences(wheel.name, held, modules | {f"tfdist/examples/files/{name}" for name in examples})
    with tarfile.open(sdist) as source:
        held = {member.name.partition("/")[2] for member in source.getmembers() if member.isfile()}
    made = {"PKG-INFO", "setup.cfg", *(name for name in held if name.startswith("tfdist.egg-info/"))}
    expected = {name for name in names if Path(name).name not in (".gitignore", ".dockerignore")}
    return found + _differences(sdist.name, held - made, expected - made)


def _differences(archive: str, held: set[str], expected: set[str]) -> list[str]:
    return [f"{archive} lacks {name}" for name in sorted(expected - held)] + [
        f"{archive} has {name}, which is no part of it" for name in sorted(held - expected)
    ]


def installed(wheel: Path, folder: Path, dependencies: bool = True) -> Path:
    """Installs a wheel into a new environment.

    Args:
        wheel: The wheel.
        folder: The environment's, which is made.
        dependencies: Whether what the wheel depends on is installed, too, which takes minutes; otherwise those of this
            environment are in sight of the new one, and its tfdist is not, however it is installed.

    Returns:
        The environment's interpreter.
    """
    _call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--quiet"]
    if dependencies:
        _call(*pip, wheel)
        _call(sys.executable, "-m", "pip", "--python", python, "check")
    else:
        site = next((folder / "lib").glob("python*")) / "site-packages"
        # They come after the new one's own packages, and the .pth files in them, of editable packages, are not read.
        here = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in here))
        _call(*pip, "--no-deps", wheel)
    return python


def _call(*command: str | Path, cwd: str | Path | None = None) -> None:
    """Runs a command; what it prints is shown when it fails."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environ, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise SystemExit(f"`{' '.join(map(str, command))}` failed:\n{(done.stdout + done.stderr)[-5000:]}")


def main() -> None:
    """Checks, builds, tries, and says what to do next."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=TREE / "dist", help="a new or empty directory")
    parser.add_argument("--rehearse", action="store_true", help="go on where the checkout is not ready for a release")
    parser.add_argument("--quick", action="store_true", help="of the README only what needs one training in all")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    if any(args.output.iterdir()):
        raise SystemExit(f"{args.output} is not empty. Empty it, or give another with --output.")
    against = unready(TREE, VERSION)
    print("".join(f"not ready: {text}\n" for text in against), end="")
    if against and not args.rehearse:
        raise SystemExit("Nothing was built. Mend this, or try the rest with --rehearse.")
    sdist, wheel = build(TREE, args.output)
    problems = content_problems(TREE, sdist, wheel)
    if problems:
        raise SystemExit("\n".join(problems))
    _call(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    print(f"built tfdist {VERSION} and checked what is in it", flush=True)
    with tempfile.TemporaryDirectory(prefix="tfdist-release-") as folder:
        begin = time.monotonic()
        python = installed(wheel, Path(folder, "venv"))
        print(f"installed into an empty environment in {time.monotonic() - begin:.0f} s; the README there:", flush=True)
        for command, seconds in run_all(commands((TREE / "README.md").read_text("utf-8"), args.quick), python):
            print(f"{seconds:6.1f} s  {command}", flush=True)
    for path in (sdist, wheel):
        print(f"{path}  {path.stat().st_size:,} bytes  sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    print(next_step(against, VERSION, args.output))


if __name__ == "__main__":
    main()
