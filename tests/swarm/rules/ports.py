"""Check of ports: each starter is told the way that its own test has found."""

from __future__ import annotations

from koala.core.model.values import SiteName
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import Record
from tests.swarm.system.starters import Starter


class Ports:
    """Ways to ports that starters were told, with the tokens that open them."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._token_ways: dict[str, tuple[str, str, bool]] = {}

    def check(self, site: SiteName, starter: Starter) -> None:
        """Check that a starter is told the way to each port that its own test has found, with a
        token that belongs to this port and way alone."""
        spec = self._record.jobs[parts(starter.claim)[0]].spec
        ports = {(port["claim"], port["port"]): port for port in starter.ports}
        for (claim, number), port in ports.items():
            named = spec.component(parts(claim)[2]).ports
            require((port["name"], number) in named, 3, f"{claim} has no port {port['name']}")
            if claim != starter.claim:
                problem = starter.tried_ports.get((claim, number), "")
                text = f"{starter.claim} is told {port}, and found {problem!r}"
                require(port["is_forwarded"] == bool(problem), 3, text)
                require(
                    not problem or self._record.carries[site], 3, f"{site} carries nothing: {text}"
                )
            require(bool(port["token"]) == port["is_forwarded"], 3, f"{starter.claim}: {port}")
            way = (claim, port["name"], claim == starter.claim)
            if port["token"]:
                self._record.count("told of a forwarded port")
                known = self._token_ways.setdefault(port["token"], way)
                require(known == way, 3, f"one token opens {known} and {way}")
