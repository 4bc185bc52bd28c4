"""Ports as the processes of one machine are told of them, and whose sockets count as theirs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from koala_agent.starter.connection import Watch
from koala_agent.starter.ports.carried import Port
from koala_agent.starter.ports.forwarder import PortForwarder
from koala_agent.starter.ports.owners import Owners

OWN, OTHER, THIRD = "j1/1/0/1", "j1/1/1/1", "j1/1/2/1"
CONNECT = """import socket, sys
own = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.read()"""

LISTEN = """import socket
own = socket.socket(socket.AF_INET6 if ":" in "HOST" else socket.AF_INET)
own.bind(("HOST", 0))
own.listen()
print(own.getsockname()[1], flush=True)
own.accept()"""


def port(claim: str, number: int, *, forwarded: bool, address: str = "a.org") -> Port:
    """Return the port WORK of a claim."""
    return Port(
        name="WORK",
        claim=claim,
        address=address,
        port=number,
        is_forwarded=forwarded,
        token="t" if forwarded else "",
    )


@contextmanager
def told(*ports: Port) -> Iterator[dict[str, str]]:
    """Yield the variables of a program of OWN."""
    identity = {"claim": OWN, "secret": "s", "nonce": "n"}
    forwarder = PortForwarder(
        list(ports), agents=[], identity=identity, mark="n", is_first=True, watch=Watch()
    )
    try:
        yield forwarder.variables
    finally:
        forwarder.close()


def test_addresses_are_direct_or_a_listener_of_this_machine() -> None:
    direct = port(OTHER, 7001, forwarded=False)
    with told(direct, port(THIRD, 7002, forwarded=True)) as variables:
        assert variables == {
            "KOALA_ADDRESS_WORK": "a.org:7001",
            "KOALA_ADDRESSES_WORK": "a.org:7001,127.77.0.3:7002",
            "KOALA_HOST_WORK": "a.org",
            "KOALA_PORT_WORK": "7001",
        }
        with socket.create_connection(("127.77.0.3", 7002)):
            pass


def test_a_python_that_cannot_encrypt_carries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ssl", None)
    with told(port(OTHER, 7001, forwarded=False)) as variables:
        assert variables["KOALA_ADDRESS_WORK"] == "a.org:7001"
    with pytest.raises(OSError, match="has no module ssl"), told(port(OTHER, 7001, forwarded=True)):
        pass


def test_a_listener_gives_way_where_its_number_is_taken() -> None:
    with socket.create_server(("127.77.0.2", 0)) as taken:
        number = taken.getsockname()[1]
        with told(port(OTHER, number, forwarded=True)) as variables:
            host, shown = variables["KOALA_ADDRESS_WORK"].split(":")
            assert (host, shown != str(number)) == ("127.77.0.2", True)


def test_an_owner_listens_where_somebody_comes_from() -> None:
    with told(port(OWN, 7003, forwarded=True, address="")) as hidden:
        assert hidden["KOALA_LISTEN_WORK"] == "127.0.0.1:7003"
        assert hidden["KOALA_CONTACT_WORK"] == "127.77.0.1:7003"
    with told(port(OWN, 7003, forwarded=False)) as reached:
        assert reached["KOALA_LISTEN_WORK"] == "0.0.0.0:7003"
        assert reached["KOALA_CONTACT_WORK"] == "a.org:7003"


def test_only_sockets_of_the_starters_descendants_count() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()
        words = [sys.executable, "-c", CONNECT, str(own[1])]
        owners = Owners(os.getpid(), "mark")
        for _child in range(2):  # the second one is not known yet
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
                caller, address = listener.accept()
                with caller:
                    assert owners.is_of_claim(address, own)
                    assert not Owners(child.pid, "mark").is_of_claim(address, own)  # no descendants
                child.communicate()
        assert Owners(os.getppid(), "mark").find_listener(own[1]) == ""  # the asking process has it


def test_a_descendant_is_found_without_a_look_at_all_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of a busy machine take so long that a caller may have ended meanwhile."""
    monkeypatch.delattr("koala_agent.starter.ports.owners.family")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()
        words = [sys.executable, "-c", CONNECT, str(own[1])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            caller, address = listener.accept()
            with caller:
                assert Owners(os.getpid(), "mark").is_of_claim(address, own)
            child.communicate()


@pytest.mark.parametrize("host", ["127.77.0.9", "0.0.0.0", "::", "::ffff:127.77.0.9"])
def test_a_listener_of_the_claim_is_found_where_it_is_reached(host: str) -> None:
    listen = LISTEN.replace("HOST", host)
    with subprocess.Popen([sys.executable, "-c", listen], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        number = int(child.stdout.readline())
        reached = Owners(os.getpid(), "mark").find_listener(number)
        with socket.create_connection((reached, number)):
            child.wait()
