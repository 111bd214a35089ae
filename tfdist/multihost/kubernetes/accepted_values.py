"""The names, labels, quantities and paths that Kubernetes takes, and the names of a job's pods in each kind of job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from tfdist.errors import UsageError

MOST_LETTERS = 63
"""Of a label of the domain name system, which names of hosts are made of."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_OF_AN_OBJECT = 253
_QUANTITY = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"SECRET|TOKEN(?!IZ)|PASSWORD|ACCESS_KEY", re.IGNORECASE)
"""In names of variables whose values are secret. TOKENIZERS_PARALLELISM is none."""

_SECRET_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}")
_FOLDER = re.compile(r"(/[^/:]+)+")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
Kind = Literal["job", "jobset", "trainjob"]
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"


def check_dns_label(option: str, name: str) -> None:
    """Checks a name that becomes part of host names: lower case, digits and dashes, with a letter first (RFC 1035)."""
    if not _LABEL.fullmatch(name) or len(name) > MOST_LETTERS:
        raise UsageError(
            f"{option} becomes part of host names. Expected at most {MOST_LETTERS} lower-case letters, digits and "
            f"dashes, a letter first and no dash last, such as digits-large. Received: {option} {name!r}"
        )


def check_object_name(option: str, name: str) -> None:
    """Checks the name of a Secret, a claim or another object that is there already."""
    if not _OBJECT.fullmatch(name) or len(name) > _MOST_OF_AN_OBJECT:
        raise UsageError(
            f"{option} takes the name of an object of Kubernetes. Expected lower-case letters, digits, dashes and "
            f"dots. Received: {option} {name!r}"
        )


def check_quantity(option: str, text: str, example: str) -> None:
    """Checks a number with a unit, above 0."""
    if not _QUANTITY.fullmatch(text) or not re.search("[1-9]", text):
        raise UsageError(
            f"{option} takes a quantity as Kubernetes writes it. Expected a number above 0 and its unit, such as "
            f"{example}. Received: {option} {text!r}"
        )


def check_image(image: str) -> None:
    """Checks the name of an image as far as no registry has to be asked."""
    if not _IMAGE.fullmatch(image):
        raise UsageError(
            "--image takes the name of an image with tfdist in it. Expected such as registry.example/tfdist:cpu. "
            f"Received: --image {image!r}"
        )


def check_label(option: str, key: str, value: str) -> None:
    """Checks a label: `PREFIX/NAME` or `NAME`, and a value that may be empty."""
    prefix, slash, name = key.rpartition("/")
    good_prefix = not slash or (_OBJECT.fullmatch(prefix) and len(prefix) <= _MOST_OF_AN_OBJECT)
    if not good_prefix or not _LABEL_VALUE.fullmatch(name) or (value and not _LABEL_VALUE.fullmatch(value)):
        raise UsageError(
            f"{option} takes a label of Kubernetes. Expected KEY=VALUE of letters, digits, dashes, underscores and "
            f"dots, at most {MOST_LETTERS} each, such as example.com/pool=gpu. Received: {option} {key}={value}"
        )


def check_variables(option: str, names: Iterable[str], *, reserved: dict[str, str]) -> None:
    """Checks the names of environment variables.

    Args:
        option: By which they were given.
        names: As they were given.
        reserved: Name -> what to do instead, of those that the manifest sets itself.
    """
    seen: set[str] = set()
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise UsageError(
                f"{option} takes the name of a variable, and = behind it. Expected letters, digits and underscores. "
                f"Received: {name!r}"
            )
        if name in reserved:
            raise UsageError(f"{option} cannot set {name}: {reserved[name]}. Received: {option} {name}=...")
        if name in seen:
            raise UsageError(f"A variable is set once. Received: {name} twice")
        seen.add(name)


def check_no_secret(names: Iterable[str]) -> None:
    """Checks that no value is secret, by its name: everybody who may read a manifest would know it."""
    for name in names:
        if _SECRET_NAME.search(name):
            raise UsageError(
                f"The manifest would show the value of {name}, which is secret by its name. Expected --env-secret "
                f"{name}=SECRET:KEY, with a Secret of the cluster (`kubectl create secret generic SECRET "
                f"--from-literal=KEY=...`). Received: --env {name}=..."
            )


def check_secret_key(option: str, key: str) -> None:
    """Checks a key of a Secret."""
    if not _SECRET_KEY.fullmatch(key):
        raise UsageError(
            f"{option} takes NAME=SECRET:KEY. Expected a key of letters, digits, dashes, underscores and dots, such as "
            f"digits-s3:key. Received the key {key!r}"
        )


def check_absolute(option: str, path: str) -> None:
    """Checks the path of a folder in the pods."""
    if not _FOLDER.fullmatch(path) or not path.isprintable() or {".", ".."} & set(path.split("/")):
        raise UsageError(
            f"{option} takes a folder of the pods. Expected an absolute path without colons, `..` and a slash at its "
            f"end, such as /runs/digits. Received: {option} {path!r}"
        )


def check_text(texts: Iterable[str]) -> None:
    """Checks that everything can be written as UTF-8, as manifests are."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(
                "A manifest is UTF-8, and an argument has bytes that are not. Expected arguments in UTF-8. "
                f"Received: {text!r}"
            ) from None


@dataclass(frozen=True)
class PodNaming:
    """The names that the controllers of a kind give to pods.

    Attributes:
        container: The container in which a worker runs.
        between: What stands between the name of the job and the index of a pod, in the pod's host name.
        behind: How many characters of a pod's name follow its index and count as well: those that are drawn.
        label: The label with the job's name that all of its pods have, and no others.
    """

    container: str
    between: str
    behind: int
    label: str


NAMING: dict[Kind, PodNaming] = {
    "job": PodNaming("worker", "-", 0, "batch.kubernetes.io/job-name"),
    "jobset": PodNaming("worker", "-worker-0-", 6, _JOBSET_LABEL),
    # Kubeflow Trainer makes a JobSet of the TrainJob's name, and has these names in its code.
    "trainjob": PodNaming("node", "-node-0-", 6, _JOBSET_LABEL),
}
assert set(NAMING) == set(get_args(Kind))


def worker_pattern(kind: Kind, name: str, workers: int, port: int) -> str:
    """The list of a job's pods as `TFDIST_WORKERS` has it: `digits-{0-3}.digits:20000`."""
    return f"{name}{NAMING[kind].between}{{0-{workers - 1}}}.{name}:{port}"


def check_lengths(kind: Kind, name: str, workers: int) -> None:
    """Checks that the host name of the last pod is none too long.

    Raises:
        UsageError: It is.
    """
    naming = NAMING[kind]
    last = f"{name}{naming.between}{workers - 1}"
    most = MOST_LETTERS - naming.behind
    if len(last) > most:
        room = most - (len(last) - len(name))
        raise UsageError(
            f"The name is too long: the last of {workers} pods would be called {last}, and {most} characters are what "
            f"Kubernetes takes there. Expected --name of {room} characters at most. Received: {len(name)}"
        )
