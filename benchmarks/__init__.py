"""Benchmarks of tfdist: whole processes in pairs, A B A B, each on cores of its own; ratios rather than single times.

    __main__            what tfdist costs or gains against Keras, TensorFlow or any other command
    paired_commands     runs two commands in turn and prints the ratio
    model_sizes         the models' sizes, for all frameworks
    models              the models that are timed, in Keras
    fit                 one timed `fit` of one of the models
    ddp                 training beside PyTorch DDP, a hand-written loop and a ceiling
    first_step          time to the first step, phase by phase, beside torchrun
    all_reduce          the sum over the workers alone, on this machine and between hosts, beside gloo
    all_reduce_report   its tables and its picture
    record_reading      one timed pass over TFRecord files
    image_reading       one timed pass over a folder of JPEGs
    checkpoint_cost     what a checkpoint takes from the training
    kill_cost           what a killed worker costs, until the next step
    open_cost           time and memory to index and open many records

`gpu` trains on a GPU beside plain Keras, PyTorch and JAX. `comparison` runs several contestants in rounds and shows
what came of it; `workers` has the programs that they run.
README.md says how to run them. They are not installed with tfdist.
"""
