"""The results that a script's run leaves behind by itself, under the names that a config's run gives them.

`script_results` puts a callback into each `fit`: with a record, which has the metrics of all of them, and the
`model_keeper`, which saves the model of the last one.
"""
