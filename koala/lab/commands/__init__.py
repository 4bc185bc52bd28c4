"""Commands in simulated time. Those of a paper lie beside it.

simulate              the group of simulations; `setting_options`, `simulation_options` and
                      `campaign_options` have their options
workload              `koala simulate workload`: synthetic logs
trace, trace_grid     `koala simulate trace`: a log on one site, or on a multicluster
replay                `koala replay`: a recorded run (`past_run`), and what-if runs of it
reproduce             `koala reproduce`: the experiments of a paper
sweep                 `koala sweep`: many settings
twin, yardstick       `koala twin`, `koala yardstick`
"""
