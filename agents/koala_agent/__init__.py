"""The agent: one process in front of the local resource manager of one site.

main, background, doctor    the commands; `doctor --probe` submits the jobs of `probes`
config, config_tables       the configuration; `accounts` and `site_access` interpret it
assembly                    builds a live site from it
agent                       the agent of one site: passes messages between the parts below
link                        the session with the daemon
claims                      the claim table, a pure machine, and its store
claim_driver                drives the table, with `claim_surroundings` and `claim_folders`
placeholders                a claim's batch job, folder and files; `output_collection` uploads some
lrm                         batch systems, real or emulated
starter_link, starter       the program of a placeholder, and the agent's connections to it
files                       replicas, copies and uploads (`koala.common.files`)
transport                   commands and files at a site, here or over ssh
environments                the variables of commands and programs
connect                     `koala site connect`
conformance                 `koala-agent conformance`: tries what a batch system must do
metrics                     what Prometheus reads
state_folder                the state directory; `sealed_database`: SQLite that detects lost rows
"""
