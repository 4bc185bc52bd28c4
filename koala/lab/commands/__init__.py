"""Commands in simulated time.

simulate              the group of simulations; `papers`: those of the papers
options               the table of options; `simulation_options`: runs, checks of files, output
workload              `koala simulate workload`: synthetic logs
trace, trace_grid     `koala simulate trace`: a log on one site, or on a multicluster
backlog               `koala simulate backlog`: co-allocation over busy sites
replay                `koala replay`: a recorded run (`past_run`), and what-if runs of it, as
                      `replay_text`
reproduce             `koala reproduce`: the experiments of a paper
sweep                 `koala sweep`: many settings
twin, yardstick       `koala twin`, `koala yardstick`
"""
