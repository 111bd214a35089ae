"""`tfdist board`: the runs of a folder on a page for the browser.

    board_verb    the verb
"""
