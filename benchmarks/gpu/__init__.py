"""`python -m benchmarks gpu`: `fit` on a GPU under tfdist, beside plain Keras, PyTorch's DDP and Keras on JAX.

    command       the command: its options, and what is run
    gpu_models    what is trained, in sizes that an option makes smaller; imports no framework
    trainers      who trains it: for each the processes that are started
    card_facts    the card, its driver and the versions
    speed_report  the tables, and which goals are met
"""
