"""Probes of `koala-agent doctor --probe`: small batch jobs at the site of a configuration.

probe_job     a job that calls back from a compute node
gate_probe    the probe of gates, and its last result
"""
