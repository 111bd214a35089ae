"""Objects that one of several writers makes, if none is there: a create on a condition.

S3 has `If-None-Match: *` for it. Stores that speak S3 may ignore it, and then every writer believes to be the only one,
so each bucket is tried before it is trusted.
"""

from __future__ import annotations

import contextlib
import secrets
from concurrent.futures import ThreadPoolExecutor

from tfdist.errors import UnsupportedError
from tfdist.storage.s3_requests import of_this_process
from tfdist.storage.s3_store import S3Store, address_of
from tfdist.url_schemes import is_bucket

_WRITERS = 8
"""The number of try at once to make the object by which a bucket is tried."""


class ConditionalCreator:
    """Creates objects on the condition that they are not there.

    Args:
        store: The store, whose buckets are tried once each.
    """

    def __init__(self, store: S3Store) -> None:
        self._store = store
        self._honours: dict[str, bool] = {}

    def create_if_absent(self, url: str, content: bytes) -> bool:
        """Creates an object where there is none.

        Args:
            url: Its URL.
            content: Its content; something in it is this writer's alone, such as a random number, as an answer may be
                lost and the object then be known by what is in it.

        Returns:
            Whether this writer made it; of several at once, one.

        Raises:
            UnsupportedError: The store ignores the condition.
            OSError: It does not answer, or refuses.
        """
        if not self.honours_condition(url):
            raise UnsupportedError(
                f"The store of {url} lets every writer create the same object: it ignores If-None-Match. Expected a "
                "store that lets one of several win, as Amazon S3 and SeaweedFS do. Use such a store, or do without "
                "what needs it."
            )
        return self._creates(url, content)

    def honours_condition(self, url: str) -> bool:
        """Returns whether the bucket of a URL lets one of several writers win. Tried once, beside the URL.

        Raises:
            OSError: It does not answer, or refuses.
        """
        bucket, _ = address_of(url)
        if bucket not in self._honours:
            self._honours[bucket] = self._try(f"{url}.tfdist-trial-{secrets.token_hex(8)}")
        return self._honours[bucket]

    def _creates(self, url: str, content: bytes) -> bool:
        try:
            self._store.write(url, content, only_new=True)
        except FileExistsError:  # also where an answer was lost, and this is the second attempt
            with self._store.open(url) as file:
                return file.read(len(content) + 1) == content
        return True

    def _try(self, url: str) -> bool:
        def wins(number: int) -> bool:
            return self._creates(url, f"writer {number}".encode())

        try:
            with ThreadPoolExecutor(_WRITERS) as pool:
                at_once = list(pool.map(wins, range(_WRITERS)))
            # One that comes later must not win either, where the first ones were refused for another reason.
            return sum(at_once) == 1 and not wins(_WRITERS)
        finally:
            with contextlib.suppress(OSError):  # an object of a few bytes may stay
                self._store.remove(url)


def conditional_creator(url: str) -> ConditionalCreator:
    """Returns what creates objects in the store of a URL on a condition.

    Raises:
        UnsupportedError: There is none for such a URL, or for a path: shared file systems keep no such promise either.
    """
    if not is_bucket(url):
        raise UnsupportedError(
            f"No object can be created under {url} on the condition that it is not there. Expected s3://BUCKET/NAME: "
            "TensorFlow's gs:// has no such call, and a shared file system may grant O_EXCL and locks twice."
        )
    return ConditionalCreator(S3Store(of_this_process()))
