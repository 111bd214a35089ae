"""Benchmarks of tfdist: whole processes in pairs, A B A B, each on cores of its own; ratios rather than single times.

    __main__            what tfdist costs or gains against Keras, TensorFlow or any other command
    paired_commands     runs two commands in turn and prints the ratio
    fit                 one timed `fit` of one of the models
    record_reading      one timed pass over TFRecord files
    image_reading       one timed pass over a folder of JPEGs
    checkpoint_cost     what a checkpoint takes from the training
    kill_cost           what a killed worker costs, until the next step
    open_cost           time and memory to index and open many records

README.md says how to run them. They are not installed with tfdist.
"""
