"""The daemon's metrics: what is counted of its events, and what is read of its state.

observer   counts durable batches: claims, jobs, copies, commits
gauges     reads state, disk and links for a scrape, from the parts of the daemon
serving    the endpoint, the counter of calls, and the measurement of the event loop's lag
summary    the document of `koala admin metrics`, without Prometheus
"""
