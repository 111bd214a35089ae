"""The names of `sharded_models`, for programs that do without Keras."""

STACKS = {"10M": (1024, 10), "50M": (1024, 48), "100M": (2048, 24), "700M": (4096, 42)}
"""Name -> width and number of the layers."""

GPT2 = "gpt2"
"""124 million parameters from its config, with random weights: nothing is downloaded."""

NAMES = (*STACKS, GPT2)
