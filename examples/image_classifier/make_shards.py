"""Writes an npz file of images, the digits by default, as TFRecord shards.

    python examples/image_classifier/make_shards.py

Each record is a `tf.train.Example` with `image`, float32 of the given shape, and `label`, one int64. Shards hold
near-equal numbers of consecutive samples and are named SPLIT-00000-of-00004.tfrecord.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "data" / "digits.npz"


def main() -> None:
    """Writes the shards of both splits and prints what they hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npz", type=Path, default=DIGITS)
    parser.add_argument("--shape", type=int, nargs="+", default=[8, 8, 1], help="of one image")
    parser.add_argument("--output", type=Path, default=HERE / "shards")
    parser.add_argument("--shards", type=int, default=4)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    with np.load(args.npz) as arrays:
        for split in ("train", "test"):
            x, y = arrays[f"x_{split}"], arrays[f"y_{split}"]
            images = x.reshape(len(x), *args.shape).astype(np.float32)
            parts = zip(np.array_split(images, args.shards), np.array_split(y, args.shards), strict=True)
            for shard, (some_images, some_labels) in enumerate(parts):
                path = args.output / f"{split}-{shard:05}-of-{args.shards:05}.tfrecord"
                write_shard(path, some_images, some_labels)
                print(f"{path}: {len(some_images)} samples")


def write_shard(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Writes one file of `images` float32 [n, ...] and integer `labels` [n]."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for image, label in zip(images, labels, strict=True):
            feature = {
                "image": tf.train.Feature(float_list=tf.train.FloatList(value=image.ravel())),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


if __name__ == "__main__":
    main()
