"""Metrics for Prometheus and whatever else reads OpenMetrics: of the daemon, its relay and agents.

declarations  all metrics; code, documents and tests are made from them or compared with them
meter         count and observe, with bounded labels
readings      values that are read for each scrape, on the event loop of their owner
calls         count gRPC calls by method and status
endpoint      serve a registry over HTTP, in threads of its own
serving       the metrics of one process: meter, readings, endpoint, and the event loop's lag
settings      the table `[metrics]` of configuration files

Nothing is imported from `prometheus_client` before a process is configured to serve metrics.
"""
