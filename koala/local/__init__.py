"""Commands that run or set up parts of Koala on this machine.

up              `koala up`; `grid_file`: one file for a whole grid
daemon_process  `koala daemon`: run it, or start, stop and show one in the background
grid_session    a grid around a body of work: start it, always clean up
processes       its processes; `child`: a daemon or agent that ends with its parent
folders         its folders
demo            `koala demo`; `demo_scenario` draws it, `demo_run` runs it, `demo_summary` sums up
init            commented files to start from; `examples` copies the examples
authority, backup   certificates and backups of a daemon on this machine
ssh_sites       `koala site connect` and `login`: agents for hosts over ssh
web             `koala web`; `web_page`: the page beside a grid of this machine
"""
