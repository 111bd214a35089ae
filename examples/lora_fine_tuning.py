"""A small GPT-2 of KerasHub learns the alphabet, and to say it backwards by LoRA: pip install keras-hub

python examples/lora_fine_tuning.py                                 one device, without tfdist
tfdist train --nproc 2 examples/lora_fine_tuning.py                 two workers, the same numbers

The model is made from its config, and its words are letters: nothing is downloaded. One that KerasHub downloads, such
as keras_hub.models.GPT2CausalLM.from_preset("gpt2_base_en"), takes its place as it is, and needs no first training.
keras-hub brings tensorflow-text, which needs the package tensorflow, of its own minor version.
"""

import argparse
import string

import keras
import keras_hub
import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=30, help="of each of the two trainings")
parser.add_argument("--batch-size", type=int, default=64, help="the global batch size")
parser.add_argument("--rank", type=int, default=4, help="of the matrices that LoRA trains")
args = parser.parse_args()
if args.rank < 1:
    parser.error(f"--rank: expected 1 or more. Received: {args.rank}")

LETTERS, LENGTH, TESTS = string.ascii_lowercase, 12, 50
keras.utils.set_random_seed(7)
generator = np.random.default_rng(7)
places = zip(generator.integers(0, 22, 500), generator.integers(4, LENGTH, 500), strict=True)
forwards = [LETTERS[start : start + length] for start, length in places]
backwards = [text[::-1] for text in forwards]

vocabulary = {word: number for number, word in enumerate(["!", *LETTERS, "qu", "<|endoftext|>"])}
# The tokenizer wants a merge; this one never happens.
tokenizer = keras_hub.models.GPT2Tokenizer(vocabulary, merges=["q u"])
preprocessor = keras_hub.models.GPT2CausalLMPreprocessor(tokenizer, sequence_length=LENGTH)
backbone = keras_hub.models.GPT2Backbone(
    vocabulary_size=len(vocabulary),
    num_layers=2,
    num_heads=4,
    hidden_dim=64,
    intermediate_dim=128,
    max_sequence_length=LENGTH,
)
model = keras_hub.models.GPT2CausalLM(backbone)


def train(texts: list[str], learning_rate: float) -> None:
    """Trains on all texts but the last, and prints how well the next letters of those are known.

    The first letter of a text and its end cannot be: the best accuracy is about 0.8.
    """
    # Once for all epochs: a model that holds the preprocessor does it anew in each of them.
    words, next_words, is_word = keras.tree.map_structure(np.asarray, preprocessor(texts))
    test = ({name: value[-TESTS:] for name, value in words.items()}, next_words[-TESTS:], is_word[-TESTS:])
    words = {name: value[:-TESTS] for name, value in words.items()}

    model.compile(keras.optimizers.Adam(learning_rate), weighted_metrics=["accuracy"], sampler="greedy")
    model.fit(
        words,
        next_words[:-TESTS],
        sample_weight=is_word[:-TESTS],
        batch_size=args.batch_size,
        epochs=args.epochs,
        shuffle=False,
        validation_data=test,
        verbose=2,
    )
    loss, accuracy = model.evaluate(*test[:2], sample_weight=test[2], batch_size=args.batch_size, verbose=0)
    trained = sum(weight.shape.num_elements() for weight in model.trainable_weights)
    print(f"{trained} trained weights: test loss {loss:.5f}, test accuracy {accuracy:.4f}")


train(forwards, 0.005)
backbone.enable_lora(args.rank)
train(backwards, 0.01)
model.preprocessor = preprocessor
print(*model.generate(["kj", "feds"]))
