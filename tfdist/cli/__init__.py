"""Command line: one verb a file, named after it; each parses, calls one function below and prints.

    main              the group of verbs, which imports each only when it is used
    standard_streams  streams that were closed before the command began, and what they show
    verb              base of all verbs and groups: errors, exit codes, what a mistyped word may mean
    common_options    options that several verbs share
    train_target      TARGET and its own arguments, of train, verify and plan
    default_arguments the config and the run of verbs that are given none
    rehearsed         what `tfdist plan` shows of a script, and `tfdist train --fast-dev-run`
    help/             headings of `--help`, options in the wrong place, and the verb `tfdist completion`
    launch/           the verbs `tfdist launch`, with its engines, and `tfdist stop`
    inference/        the verbs of a trained model, such as `tfdist predict`
    data/             the verbs of `tfdist data`; examples_group has those of `tfdist examples`

Nothing here imports TensorFlow, and `tfdist --help` imports main, standard_streams, text and verb alone.
"""
