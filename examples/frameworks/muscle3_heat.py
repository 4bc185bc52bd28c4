"""Exchange heat between sea and air, two models that MUSCLE3 couples.

The sea leads the steps and sends its temperature. The air answers with the heat that it has taken.
Exit status 0 of the sea means that both have the same temperature at the end, and no heat was lost.
"""

from __future__ import annotations

import argparse
import os

from libmuscle import Instance, Message
from libmuscle.mcp.tcp_transport_server import TcpTransportServer
from libmuscle.mcp.transport_server import RequestHandler
from libmuscle.mcp.type_registry import transport_server_types
from ymmsl.v0_2 import Operator

SEA_CAPACITY, AIR_CAPACITY = 4.0, 1.0
SEA_START, AIR_START = 10.0, 0.0
WANTED = (SEA_CAPACITY * SEA_START + AIR_CAPACITY * AIR_START) / (SEA_CAPACITY + AIR_CAPACITY)


class ServerAtPort(TcpTransportServer):
    """Server of a model at the port MODEL of its component, where the other model reaches it."""

    def __init__(self, handler: RequestHandler) -> None:
        super().__init__(handler, int(os.environ["KOALA_PORT_MODEL"]))

    def get_location(self) -> str:
        """Return the address that the manager tells other models."""
        return f"tcp:{os.environ['KOALA_CONTACT_MODEL']}"


def sea() -> None:
    """Lead the steps; print both temperatures at the end."""
    instance = Instance({Operator.O_I: ["surface"], Operator.S: ["flow"]})
    temperature, steps, answer = SEA_START, 0, {}
    while instance.reuse_instance():
        steps = instance.get_setting("steps", "int")
        for step in range(steps):
            later = step + 1 if step + 1 < steps else None
            instance.send("surface", Message(step, later, temperature))
            answer = instance.receive("flow").data
            temperature -= answer["heat"] / SEA_CAPACITY
    here = os.environ["KOALA_SITE"]
    print(f"{steps} steps of the sea at {here} and the air at {answer['site']}")
    print(f"sea {temperature:.3f}, air {answer['air']:.3f}, wanted {WANTED:.3f}")
    if max(abs(temperature - WANTED), abs(answer["air"] - WANTED)) > 0.01:
        raise SystemExit("the models did not exchange their heat")


def air() -> None:
    """Take heat in each step, as long as the sea asks."""
    instance = Instance({Operator.F_INIT: ["surface"], Operator.O_F: ["flow"]})
    temperature, steps = AIR_START, 0
    while instance.reuse_instance():
        exchange = instance.get_setting("exchange", "float")
        surface = instance.receive("surface")
        heat = exchange * (surface.data - temperature)
        temperature += heat / AIR_CAPACITY
        steps += 1
        answer = {"heat": heat, "air": temperature, "site": os.environ["KOALA_SITE"]}
        instance.send("flow", Message(surface.timestamp, None, answer))
    print(f"the air answered {steps} steps")


def main() -> None:
    """Run one of the models."""
    options = argparse.ArgumentParser(description=__doc__)
    transport_server_types[:] = [ServerAtPort]
    options.add_argument("model", choices=["sea", "air"])
    {"sea": sea, "air": air}[options.parse_args().model]()


if __name__ == "__main__":
    main()
