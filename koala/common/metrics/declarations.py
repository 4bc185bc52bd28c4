"""All metrics of Koala, declared in the order of the table in docs/guides/metrics.md.

Names begin with `koala_`, units are base units, counters end in `_total`. A label has a fixed list
of values, or is a site: the number of sites is bounded by the configuration (`Meter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import grpc

from koala.common.protocol.messages import EndKind
from koala.common.wire.v1 import files_pb2, identity_pb2, koala_pb2, link_pb2

OTHER = "other"
"""Label value that stands for all values beyond the known ones."""


class MetricKind(StrEnum):
    """Kind of a metric, as OpenMetrics names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Process that has a metric."""

    DAEMON = "daemon"
    RELAY = "relay"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label and its values. `takes_sites` adds the names of sites, up to the configured number;
    `takes_any` is for a label with one value in a process."""

    name: str
    values: tuple[str, ...] = ()
    takes_sites: bool = False
    takes_any: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Declaration of a metric.

    `buckets` are the upper bounds of a histogram. With `is_read` the value is read for each scrape,
    otherwise it is counted as things happen.
    """

    name: str
    kind: MetricKind
    help: str
    sources: tuple[Source, ...]
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    is_read: bool = False

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels, in order."""
        return tuple(label.name for label in self.labels)


# --- labels ---------------------------------------------------------------------------------------

SITE = Label(name="site", takes_sites=True)
NO_QUEUE = "none"
QUEUE = Label(
    name="queue", values=("high", "low", "global", "deadline", NO_QUEUE), takes_sites=True
)
PRIORITY = Label(name="priority", values=("high", "low"))
PHASE = Label(
    name="phase",
    values=(
        "waiting",
        "delayed",
        "placing",
        "claiming",
        "queued",
        "starting",
        "releasing",
        "running",
        "stopping",
    ),
)
OUTCOME = Label(name="outcome", values=("finished", "failed", "cancelled"))
CLAIM_PHASE = Label(
    name="phase", values=("asked", "granted", "armed", "released", "passed", "stopping")
)
ANSWER = Label(name="answer", values=("granted", "refused"))
TIMEOUT, REJECTED = "timeout", "rejected"
REFUSAL = Label(
    name="reason",
    values=(TIMEOUT, REJECTED, *(k.value for k in EndKind if k is not EndKind.REFUSED)),
)
END = Label(name="reason", values=tuple(kind.value for kind in EndKind))
HOLD_END = Label(name="outcome", values=("started", "lost"))
FAULT = Label(name="reason", values=("failed", "launch", "vanished", "fenced", "lease", "transfer"))
CLAIM_USE = Label(name="use", values=("hold", "run"))
USE = Label(name="use", values=("idle", "asked", "held", "running", "local"))
STATE = Label(name="state", values=("disconnected", "usable", "drained", "resting"))
FETCH_OUTCOME = Label(name="outcome", values=("finished", "failed"))
STATUS = Label(name="status", values=tuple(code.name for code in grpc.StatusCode))
METHOD = Label(
    name="method",
    values=tuple(
        f"{service.name}/{method.name}"
        for file in (koala_pb2, link_pb2, identity_pb2, files_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ),
)
DIRECTION = Label(name="direction", values=("forwarded", "stored", "uploaded"))
COMMAND_KIND = Label(name="kind", values=("asks", "acts"))
AGENT_STATE = Label(name="state", values=("asked", "held", "running", "ending", "gone"))
OBSERVER = Label(name="observer", values=("metrics", "traces"))
VERSION = Label(name="version", takes_any=True)

# --- buckets --------------------------------------------------------------------------------------

FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""From half a millisecond to 5 s: commits, calls, the event loop, start skew."""
SLOW = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 14_400.0, 86_400.0)
"""From a tenth of a second to a day: waits, holds, runs, copies."""

# --- ways to declare ------------------------------------------------------------------------------

_DAEMON = (Source.DAEMON,)
_RELAY = (Source.RELAY,)
_AGENT = (Source.AGENT,)
_SERVERS = (Source.DAEMON, Source.RELAY)
_ALL = tuple(Source)


def _counter(
    name: str, text: str, *labels: Label, of: tuple[Source, ...] = _DAEMON, is_read: bool = False
) -> Metric:
    kind = MetricKind.COUNTER
    return Metric(name=name, kind=kind, help=text, sources=of, labels=labels, is_read=is_read)


def _gauge(name: str, text: str, *labels: Label, of: tuple[Source, ...] = _DAEMON) -> Metric:
    kind = MetricKind.GAUGE
    return Metric(name=name, kind=kind, help=text, sources=of, labels=labels, is_read=True)


def _histogram(
    name: str,
    text: str,
    *labels: Label,
    buckets: tuple[float, ...],
    of: tuple[Source, ...] = _DAEMON,
) -> Metric:
    kind = MetricKind.HISTOGRAM
    return Metric(name=name, kind=kind, help=text, sources=of, labels=labels, buckets=buckets)


# --- every process --------------------------------------------------------------------------------

BUILD_INFO = _gauge(
    "koala_build_info", "Always 1; the label has the version of the software.", VERSION, of=_ALL
)
READINGS_AGE = _gauge(
    "koala_readings_age_seconds",
    "Age of the values that are read for a scrape; it grows while the event loop does not answer.",
    of=_ALL,
)
DISK_FREE = _gauge(
    "koala_disk_free_bytes", "Free space on the disk of the state directory or spool.", of=_ALL
)
CERTIFICATE_ENDS = _gauge(
    "koala_certificate_expiry_timestamp_seconds",
    "End of the certificate of the daemon or of the agent's site, in epoch seconds.",
    of=(Source.DAEMON, Source.AGENT),
)
CALLS = _counter(
    "koala_calls_total", "Calls that ended, by method and gRPC status.", METHOD, STATUS, of=_SERVERS
)
CALL_SECONDS = _histogram(
    "koala_call_duration_seconds",
    "Duration of calls with one answer; streams do not count.",
    METHOD,
    buckets=FAST,
    of=_SERVERS,
)
LOOP_LAG = _histogram(
    "koala_event_loop_lag_seconds",
    "Delay with which the event loop runs a task that is due, measured several times a second.",
    buckets=FAST,
    of=_ALL,
)

# --- jobs -----------------------------------------------------------------------------------------

JOBS = _gauge("koala_jobs", "Jobs that are not over, by phase and placement queue.", PHASE, QUEUE)
QUEUE_AGE = _gauge(
    "koala_queue_head_age_seconds", "Time for which the head of a placement queue waits.", QUEUE
)
JOBS_SUBMITTED = _counter("koala_jobs_submitted_total", "Accepted jobs.", PRIORITY)
JOBS_ENDED = _counter("koala_jobs_ended_total", "Jobs that are over.", OUTCOME)
JOB_WAIT = _histogram(
    "koala_job_wait_seconds", "Time from submission to the first start.", PRIORITY, buckets=SLOW
)
PLACEMENTS = _counter("koala_job_placements_total", "Attempts: placements of jobs on sites.")
SETBACKS = _counter(
    "koala_job_setbacks_total", "Attempts that were given up, so that the job is placed again."
)
PREEMPTIONS = _counter(
    "koala_job_preemptions_total", "Attempts that were stopped for a job of high priority."
)
START_SKEW = _histogram(
    "koala_start_skew_seconds",
    "Time between the first and the last component that passed the barrier of a job.",
    buckets=FAST,
)

# --- claims ---------------------------------------------------------------------------------------

CLAIMS = _gauge("koala_claims", "Claims in the ledger, by phase.", CLAIM_PHASE)
CLAIMS_ASKED = _counter("koala_claims_asked_total", "Claims asked of a site.", SITE)
CLAIMS_GRANTED = _counter("koala_claims_granted_total", "Claims that a site granted.", SITE)
CLAIMS_REFUSED = _counter(
    "koala_claims_refused_total",
    "Claims that ended without a grant: not started within the grace time (timeout), refused by"
    " a rule of the site (rejected), or for another reason.",
    SITE,
    REFUSAL,
)
CLAIMS_ENDED = _counter("koala_claims_ended_total", "Granted claims that ended.", SITE, END)
CLAIM_ANSWER = _histogram(
    "koala_claim_answer_seconds",
    "Time from asking for a claim to its answer.",
    ANSWER,
    buckets=SLOW,
)
CLAIM_HOLD = _histogram(
    "koala_claim_hold_seconds",
    "Time for which granted claims held processors before their start, or in vain.",
    HOLD_END,
    buckets=SLOW,
)
PROCESSOR_SECONDS = _counter(
    "koala_processor_seconds_total",
    "Processor-seconds of claims that ended, held before the start or run.",
    SITE,
    CLAIM_USE,
)
LEASE_RENEWALS = _counter(
    "koala_lease_renewals_total", "Answered pings of starters; each renews a lease.", is_read=True
)
LEASES_EXPIRED = _counter(
    "koala_leases_expired_total", "Claims whose lease ran out, or that were fenced.", SITE
)

# --- sites ----------------------------------------------------------------------------------------

SITES = _gauge("koala_sites", "Known sites, by state.", STATE)
SITE_UP = _gauge("koala_site_up", "1 while the link to a site's agent is up.", SITE)
SITE_USABLE = _gauge(
    "koala_site_usable", "1 while a site takes claims: connected, not drained, not resting.", SITE
)
SITE_DRAINED = _gauge("koala_site_drained", "1 while a site is drained.", SITE)
SITE_CAPACITY = _gauge("koala_site_capacity_processors", "Processors that a site offers.", SITE)
SITE_PROCESSORS = _gauge(
    "koala_site_processors",
    "Processors of a site by use: idle by its last report, asked for, held at a barrier, running,"
    " used by local jobs.",
    SITE,
    USE,
)
SITE_RTT = _gauge("koala_site_round_trip_seconds", "Round trip to a site's agent.", SITE)
SITE_ERRORS = _gauge(
    "koala_site_consecutive_errors", "Errors of a site since a component last ended well.", SITE
)
SITE_CERTIFICATE = _gauge(
    "koala_site_certificate_expiry_timestamp_seconds",
    "End of the certificate that a site was last given, in epoch seconds.",
    SITE,
)
SITE_FAULTS = _counter(
    "koala_site_faults_total", "Claims and copies that failed by a site's fault.", SITE, FAULT
)
SITE_REGISTRATIONS = _counter(
    "koala_site_registrations_total", "Registrations of a site's agent.", SITE
)
SITE_DISCONNECTS = _counter(
    "koala_site_disconnects_total", "Times when the link to a site's agent was cut.", SITE
)
FLOODS = _counter(
    "koala_agent_floods_total", "Agents that were cut because they sent too much.", is_read=True
)

# --- copies ---------------------------------------------------------------------------------------

TRANSFERS = _gauge("koala_transfers", "Copies of input files under way.")
TRANSFERS_ENDED = _counter(
    "koala_transfers_ended_total", "Copies to a site that ended.", SITE, OUTCOME
)
TRANSFER_BYTES = _counter("koala_transfer_bytes_total", "Bytes of finished copies to a site.", SITE)
TRANSFER_SECONDS = _histogram(
    "koala_transfer_duration_seconds", "Duration of finished copies.", buckets=SLOW
)

# --- daemon and journal ---------------------------------------------------------------------------

EPOCH = _gauge("koala_epoch", "Number of the daemon's run.")
EVENTS = _counter("koala_events_total", "Events that changed the state, durable.")
COMMIT_SECONDS = _histogram(
    "koala_journal_commit_seconds", "Duration of a commit of the journal.", buckets=FAST
)
JOURNAL_BYTES = _gauge("koala_journal_size_bytes", "Size of the journal's files.")
HANDLING_SECONDS = _counter(
    "koala_handling_seconds_total", "Time in which the core handled events.", is_read=True
)
INBOX = _gauge("koala_inbox_items", "Items that wait for the event loop.")
WATCHERS = _gauge("koala_watchers", "Clients that follow events.")
POLICIES_REPLACED = _gauge(
    "koala_policies_replaced", "Policies that failed and were replaced by the default."
)
OBSERVER_ERRORS = _counter(
    "koala_observer_errors_total",
    "Batches of events that metrics or traces have missed in part because of an error of theirs.",
    OBSERVER,
    is_read=True,
)

# --- relay ----------------------------------------------------------------------------------------

RELAY_BYTES = _counter(
    "koala_relay_bytes_total",
    "Bytes that the relay forwarded between sites, stored in the spool, or sent of uploads.",
    DIRECTION,
    of=_RELAY,
    is_read=True,
)
RELAY_READERS = _gauge("koala_relay_readers", "Sites that read, or wait to.", of=_RELAY)
RELAY_SOURCES = _gauge("koala_relay_sources", "Sources that wait for their reader.", of=_RELAY)
RELAY_STORES = _gauge("koala_relay_stores", "Outputs and logs that are being stored.", of=_RELAY)

# --- agent ----------------------------------------------------------------------------------------

AGENT_LINK_UP = _gauge("koala_agent_link_up", "1 while the site is registered.", of=_AGENT)
AGENT_CONNECTIONS = _counter(
    "koala_agent_connections_total",
    "Connections to the daemon that the agent began.",
    of=_AGENT,
    is_read=True,
)
AGENT_CLAIMS = _gauge("koala_agent_claims", "Claims of the site, by state.", AGENT_STATE, of=_AGENT)
AGENT_CLAIMS_ENDED = _counter(
    "koala_agent_claims_ended_total", "Ends of claims that were reported.", END, of=_AGENT
)
AGENT_GRANTED = _counter(
    "koala_agent_claims_granted_total", "Claims that were reported as granted.", of=_AGENT
)
AGENT_CAPACITY = _gauge(
    "koala_agent_capacity_processors", "Processors by the local manager's last answer.", of=_AGENT
)
AGENT_STARTABLE = _gauge(
    "koala_agent_startable_processors", "Processors that a claim could have now.", of=_AGENT
)
AGENT_LOCAL = _gauge("koala_agent_local_processors", "Processors that local jobs use.", of=_AGENT)
AGENT_QUEUED = _gauge(
    "koala_agent_queued_jobs", "Jobs that wait in the site's own queue.", of=_AGENT
)
AGENT_TRANSFERS = _counter(
    "koala_agent_transfers_total", "Copies to this site that ended.", FETCH_OUTCOME, of=_AGENT
)
AGENT_TRANSFER_BYTES = _counter(
    "koala_agent_transfer_bytes_total", "Bytes of finished copies to this site.", of=_AGENT
)
AGENT_COMMANDS = _counter(
    "koala_agent_commands_total",
    "Commands at the batch system.",
    COMMAND_KIND,
    of=_AGENT,
    is_read=True,
)
AGENT_ASKS_ALLOWED = _gauge(
    "koala_agent_asks_allowed", "The most commands that may ask in a minute now.", of=_AGENT
)
AGENT_TROUBLE = _gauge(
    "koala_agent_trouble",
    "1 while the site needs its administrator: disk, certificate, batch system or account.",
    of=_AGENT,
)

METRICS: tuple[Metric, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Metric)
)
"""Every metric, in the order of this module."""
