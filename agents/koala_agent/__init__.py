"""The agent: one process in front of the local resource manager of one site.

main, background, doctor    the commands; `doctor --probe` submits the `probe_job`
config, config_tables       the configuration; `accounts` and `site_access` interpret it
assembly                    builds a live site from it
site                        the agent of one site: passes messages between the parts below
link                        the session with the daemon
claims                      the claim table, a pure machine, and its store
claim_driver                drives the table, with `claim_surroundings` and `claim_folders`
placeholders                a claim's batch job, folder and files; `output_collection` uploads some
lrm                         batch systems, real or emulated
starter_link, starter       the program of a placeholder, and the agent's connections to it
files                       replicas, copies and uploads (`koala.files`)
transport                   commands and files at a site, here or over ssh
connect                     `koala site connect`
metrics                     what Prometheus reads
state_folder                the state directory; `sealed_database`: SQLite that detects lost rows
"""

import os

FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
VERBOSITY = "GRPC_VERBOSITY"
os.environ.setdefault(FORK_SUPPORT, "0")
# gRPC reads it at import. With fork support it restarts its threads around each fork; where the
# account's thread limit is reached, a failed start of a process would cost the link.
if os.isatty(2):
    os.environ.setdefault(VERBOSITY, "NONE")
# A log file keeps gRPC's lines about failed handshakes; on a terminal they do not help a person.
