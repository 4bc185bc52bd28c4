"""`koala top`: the grid and its jobs, live in a terminal.

    command.py    the command; imports nothing heavy
    viewer.py     its loop over changes, keys and the clock
    keys.py       bytes of a terminal to names of keys
    state.py      which view, which job, which order: what keys change. Pure
    scene.py      what the daemon says, as one value. Pure
    screen.py     a scene and a state as the lines of a screen. Pure
    detail.py     the views of one job: course and barrier, why, logs. Pure

The data come from `koala.client.grid_model`, with one watch of the daemon as for the web page.
"""
