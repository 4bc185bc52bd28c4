"""OpenTelemetry traces of jobs: one trace a job, sent when the job is over.

observer   keeps what a trace needs of jobs that are not over
export     sends spans to an OTLP receiver, in a thread of its own (extra `otel`)
"""
