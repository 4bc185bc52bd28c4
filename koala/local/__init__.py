"""A grid on this machine: `koala up` and `koala demo`, their processes and the live view.

up              `koala daemon` and `koala up`
grid_session    a grid around a body of work: start it, always clean up
processes       its processes; `child`: a daemon or agent that ends with its parent
folders         its folders
demo            `koala demo`; `demo_scenario` draws it, `demo_run` runs it, `demo_summary` sums up
live_view       the panels of the demo
init            commented files to start from; `examples` copies the examples
web             `koala web`; `web_page`: the page beside a grid of this machine
"""
