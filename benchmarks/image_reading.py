"""Timer of JPEG reading in this process: `python -m benchmarks.image_reading READER FOLDER [--seconds S]`.

`tensorflow` is the pipeline that TensorFlow's guides write: files in a shuffled order, read, decoded, resized, flipped
and made brighter or darker at random. `tfdist` does the same with `tfdist.data.images` and `augment`. Prints one line
of JSON with the batches of 32 images a second.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record_reading import batches_per_second

BATCH = 32
IMAGES = 512
CLASSES = 4
STORED, SIZE = 320, 224
"""Height and width in the file, and as trained on."""


def main() -> None:
    """Parses the command line, times and prints."""
    parser = argparse.ArgumentParser(description="Times reading a folder of JPEGs in this process.")
    parser.add_argument("reader", choices=["tensorflow", "tfdist"])
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    batches = (_by_tensorflow if options.reader == "tensorflow" else _by_tfdist)(options.folder)
    print(json.dumps({"steps_per_second": batches_per_second(batches, options.seconds)}), flush=True)


def write_folder(folder: Path) -> str:
    """Writes JPEGs of smooth colours and some noise, one folder a class; returns the folder's name."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    for number in range(IMAGES):
        place = folder / "photos" / f"class-{number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = tf.image.resize(generator.uniform(0, 255, (10, 10, 3)), (STORED, STORED), "bicubic").numpy()
        noisy = np.clip(coarse + generator.normal(0, 8, coarse.shape), 0, 255).astype(np.uint8)
        (place / f"{number}.jpg").write_bytes(tf.io.encode_jpeg(noisy, quality=90).numpy())
    return str(folder / "photos")


def _by_tensorflow(folder: str) -> Any:
    import tensorflow as tf

    from tfdist.data.files.image_folder import ImageFiles

    found = ImageFiles.find(folder)
    paths = [str(path) for path in found.paths]

    def load(path: Any, label: Any) -> tuple[Any, Any]:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
        return tf.image.random_brightness(image, 20.0), label

    samples = tf.data.Dataset.from_tensor_slices((paths, found.labels)).shuffle(len(paths))
    return samples.map(load, tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def _by_tfdist(folder: str) -> Any:
    import tensorflow as tf

    import tfdist.data

    def augment(sample: Any, seed: Any) -> tuple[Any, Any]:
        image = tf.image.stateless_random_flip_left_right(sample[0], seed)
        return tf.image.stateless_random_brightness(image, 20.0, seed), sample[1]

    return tfdist.data.images(folder, (SIZE, SIZE), batch_size=BATCH, shuffle=True, seed=1, augment=augment)


if __name__ == "__main__":
    main()
