"""Exchange with the running program: `kv_socket` takes its requests, `job_world` tells it of the
members of a malleable job.
"""
