"""Writes a text file of labelled lines, the same for the same arguments, as large as asked for.

    python examples/text_classifier/make_reviews.py --lines 200000

A line is `0` or `1`, a tab, and 8 to 24 words. Most words mean nothing, some lean to one label: a classifier has to
weigh them, and cannot get every line right.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

PRAISE = ["moving", "clever", "warm", "gripping", "superb", "funny", "bold", "graceful"]
BLAME = ["dull", "clumsy", "cold", "tedious", "awful", "bland", "timid", "careless"]
NEUTRAL = [f"{noun}{number}" for noun in ("actor", "scene", "plot", "city", "song") for number in range(100)]
LINES_AT_ONCE = 10_000


def main() -> None:
    """Writes the file and prints what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "reviews.txt")
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.Generator(np.random.Philox(args.seed))
    with open(args.output, "w", encoding="utf-8") as file:
        for start in range(0, args.lines, LINES_AT_ONCE):
            count = min(LINES_AT_ONCE, args.lines - start)
            file.writelines(line(generator) for _ in range(count))
    print(f"{args.output}: {args.lines} lines, {args.output.stat().st_size:,} bytes")


def line(generator: np.random.Generator) -> str:
    """Makes one labelled line: its words lean to its label four times of five."""
    label = int(generator.integers(2))
    words = generator.choice(NEUTRAL, generator.integers(5, 20)).tolist()
    for _ in range(int(generator.integers(3, 6))):
        leaning = PRAISE if (generator.random() < 0.8) == bool(label) else BLAME
        words.insert(int(generator.integers(len(words) + 1)), leaning[int(generator.integers(len(leaning)))])
    return f"{label}\t{' '.join(words)}\n"


if __name__ == "__main__":
    main()
