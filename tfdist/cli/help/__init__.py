"""The help of the command line: what it says of itself.

    help_sections      headings of options, for `--help` and `--help-all`
    misplaced_options  options behind a script that were meant for the verb
    completion         the verb `tfdist completion`: what a shell needs to complete words
"""
