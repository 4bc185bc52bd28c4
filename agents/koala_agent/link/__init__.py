"""The agent's end of the link to the daemon.

`session` is the protocol as a pure machine, with the back-off between two dials;
`session_events` has its events and outputs.
`session_driver` drives it, `stream` carries it over gRPC, `codec` translates its messages.
`session_status` is what other parts of the agent see of it.
`endpoints` connects to the daemon. `enrolment` gets the site's certificate, `certificate_renewal`
renews it, both with keys of `koala.common.identity`.
"""
