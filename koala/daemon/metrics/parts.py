"""Parts of the daemon that its metrics are read from."""

from __future__ import annotations

from dataclasses import dataclass

from koala.common.runtime.disk_space import DiskSpace
from koala.daemon.agents.connections import SiteSessions
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.agents.starter_requests import StarterRequests
from koala.daemon.clients.event_feed import EventFeed
from koala.daemon.listeners import Listeners
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.observers import Observers
from koala.daemon.storage.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonParts:
    """Parts of a daemon, read only, on its event loop."""

    version: str
    event_loop: EventLoop
    observers: Observers
    requests: StarterRequests
    registry: AgentRegistry
    sessions: SiteSessions
    notices: EventFeed
    disk: DiskSpace
    journal: Journal
    listeners: Listeners
