"""The board: a page that shows the runs of a folder in a browser, for who has its token, and changes nothing.

    board_folder     which runs there are, none of them outside of the folder
    run_answers      one run: status, curves, ledger, failures, logs; so many letters, so many numbers, no controls
    list_answers     the list of runs, and their comparison
    request_guard    who may ask, and what every answer says to the browser
    web_app          the addresses, by Starlette
    board_server     listens, by Uvicorn, until a signal comes
    page/            what the browser gets: HTML, CSS, JavaScript; no build step, nothing from another host

What the page says, the functions of reports say, as they do for `tfdist status` and `tfdist ledger`. Starlette and
Uvicorn are imported where the board is served, so that all of it can be read without them.
"""
