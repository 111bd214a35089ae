"""Checksums of many TFRecord records, verified at once.

Calling the library for each small record takes twice as long as `all_whole`, which combines the records into one piece
of data and computes one CRC of it. Data followed by its own CRC always has the same CRC, the residue, and a CRC is
linear. So the combined data has the residue as its CRC if every record is intact; if one is not, it has another CRC
but for a chance of 1 in 2**32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.crc32c import crc32c, masked_crc32c_of_each, unmasked
from tfdist.data.random_access.tfrecord_scan import FOOTER_BYTES

_WORD = np.arange(4)


def all_whole(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Returns whether all records match their checksums.

    Args:
        data: Contains the records, each followed by its footer. It is overwritten.
        starts: The offset of each record, [k]. A record may be listed twice; otherwise records do not overlap.
        sizes: The size of each record in bytes, without the footer, [k].
    """
    if not len(starts):
        return True
    starts, kept = np.unique(starts, return_index=True)
    ends = starts + sizes[kept]
    data[ends[:, np.newaxis] + _WORD] = unmasked(_words(data, ends)).astype("<u4").view(np.uint8).reshape(-1, 4)
    gaps = starts[1:] - ends[:-1] - FOOTER_BYTES
    for gap in np.unique(gaps).tolist():
        after = starts[1:][gaps == gap, np.newaxis]
        data[after - np.arange(gap, 0, -1)] = 0
        # Brings the CRC register from its state after the residue and the gap back to the state that a CRC starts from.
        back = crc32c(np.zeros(FOOTER_BYTES + gap, np.uint8))
        data[after + _WORD] ^= np.frombuffer(back.to_bytes(4, "little"), np.uint8)
    return crc32c(data[starts[0] : ends[-1] + FOOTER_BYTES]) == crc32c(bytes(FOOTER_BYTES))


def first_corrupt(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int | None:
    """Computes the checksum of each record; see `all_whole` for the arguments.

    Returns:
        The position in `starts` of the first record that does not match its checksum, or None if all match.
    """
    if not len(starts):
        return None
    wrong = masked_crc32c_of_each(data, starts, sizes) != _words(np.frombuffer(data, np.uint8), starts + sizes)
    return int(wrong.argmax()) if wrong.any() else None


def _words(data: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The little-endian 4-byte numbers at the offsets `places`, uint32 [k]."""
    return data[places[:, np.newaxis] + _WORD].view("<u4").reshape(-1)
