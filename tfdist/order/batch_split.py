"""Split of a global batch into the replicas' pieces."""

from __future__ import annotations


def bounds(n: int, parts: int, k: int) -> tuple[int, int]:
    """Returns `(start, stop)` of piece `k` when `n` samples are cut into `parts` contiguous pieces.

    Piece `k` starts at `ceil(k * n / parts)`. The pieces cover `range(n)` in order, their sizes differ by at most one,
    and piece 0 is never smaller than another, so it is empty only when `n` is 0. When there are fewer samples than
    pieces, some pieces are empty.

    The cut nests: pieces `k*m ... k*m + m - 1` of `parts*m` together are piece `k` of `parts`. So a worker with `m`
    replicas reads the same samples as it would with one.

    Args:
        n: Number of samples, at least 0.
        parts: Number of pieces, at least 1.
        k: Which piece, `0 <= k < parts`.

    Raises:
        ValueError: An argument is out of its range.
    """
    if n < 0 or parts < 1 or not 0 <= k < parts:
        raise ValueError(f"Expected n >= 0, parts >= 1 and 0 <= k < parts. Received: n={n}, parts={parts}, k={k}")
    return _start(n, parts, k), _start(n, parts, k + 1)


def _start(n: int, parts: int, k: int) -> int:
    return -(-k * n // parts)
