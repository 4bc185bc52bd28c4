"""Commands in simulated time.

simulate              the group of simulations; `setting_options`, `simulation_options` and
                      `campaign_options` have their options; `papers`: those of the papers
workload              `koala simulate workload`: synthetic logs
trace, trace_grid     `koala simulate trace`: a log on one site, or on a multicluster
backlog               `koala simulate backlog`: co-allocation over busy sites
replay                `koala replay`: a recorded run (`past_run`), and what-if runs of it, as
                      `replay_text`
reproduce             `koala reproduce`: the experiments of a paper
sweep                 `koala sweep`: many settings
twin, yardstick       `koala twin`, `koala yardstick`
"""
