"""Run one part of a Flower federation: SuperLink, SuperNode or SuperExec, as a component of a job.

The first component is the SuperLink, at the port FLEET. It submits the app in the folder
flower, and its end is the end of the federation. A SuperNode publishes the address of its own port,
and a secret, in the exchange of the job. The SuperExec of the same site reads them there, so the
two can be different machines, and jobs of a batch system that start together.

All connections are TLS. SuperLink and SuperNodes make certificates for their addresses, and publish
them in the exchange, which only this job can use: so the others know whom they trust.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Rendezvous, RendezvousError

WAIT_S = 240.0
"""Longest wait for another part, in seconds."""
ENDED = "flower/ended"
"""The name in the exchange that gets a value when the federation has ended."""
SUPERLINK = "flower/superlink"
"""The name in the exchange of the certificate of the SuperLink."""
VALID = timedelta(days=7)
"""How long a certificate is valid; longer than a job runs."""
APP = Path(__file__).resolve().parent / "flower"
FLOWER = Path(sys.executable).parent
"""The folder of Flower's commands."""


def superlink(world: Rendezvous, folder: Path, supernodes: int) -> None:
    """Start the SuperLink, run the app, and tell all parts that the federation has ended."""
    address, port = os.environ["KOALA_LISTEN_FLEET"].rsplit(":", 1)
    contact = os.environ["KOALA_CONTACT_FLEET"].rsplit(":", 1)[0]
    local = "127.0.0.1"
    certificate, options = certified(folder, local, contact)
    text = f'[superlink]\ndefault = "job"\n\n[superlink.job]\naddress = "{local}:{port}"\n'
    text += f'root-certificates = "{certificate}"\n'
    (folder / "config.toml").write_text(text, encoding="utf-8")
    world.exchange.put(SUPERLINK, certificate.read_text(encoding="ascii"))
    words = ["flower-superlink", *options, "--host", address, "--port", port]
    link = started([*words, "--disable-runtime-dependency-installation"])
    try:
        await_health(f"https://{local}:{port}/health", certificate, link)
        print(flower("run", str(APP), "--run-config", f"supernodes={supernodes}", "--stream"))
        (run,) = json.loads(flower("ls", "--format", "json"))["runs"]
    finally:
        world.exchange.put(ENDED, "yes")
        link.terminate()
        link.wait()
    print(f"the run is {run['status']}")
    if run["status"] != "finished:completed":
        raise SystemExit("the app failed; its log is above")


def supernode(world: Rendezvous, folder: Path) -> list[str]:
    """Publish how the SuperExec of this site reaches the SuperNode; return the command of it."""
    host, site = world.member.address, world.member.site
    with socket.create_server((host, 0)) as free:
        port = str(free.getsockname()[1])  # flower-supernode does not tell which port it chose
    secret = secrets.token_hex(32)
    certificate, options = certified(folder, host)
    trusted = certificate.read_text(encoding="ascii")
    where = {"address": f"{host}:{port}", "secret": secret, "certificate": trusted}
    world.exchange.put(f"flower/{site}", json.dumps(where))
    superlink = kept(folder / "superlink.pem", world.exchange.get(SUPERLINK, wait_s=WAIT_S))
    words = ["flower-supernode", *options, "--root-certificates", str(superlink)]
    words += ["--isolation", "process"]
    words += ["--superlink", os.environ["KOALA_ADDRESS_FLEET"]]
    words += ["--host", host, "--port", port, "--node-config", f'site="{site}"']
    return [*words, "--superexec-auth-secret-file", str(kept(folder / "secret", secret))]


def superexec(world: Rendezvous, folder: Path) -> list[str]:
    """Read where the SuperNode of this site is; return the command of the SuperExec."""
    where = json.loads(world.exchange.get(f"flower/{world.member.site}", wait_s=WAIT_S))
    words = ["flower-superexec", "--runtime-api-address", where["address"]]
    trusted = kept(folder / "supernode.pem", where["certificate"])
    words += ["--root-certificates", str(trusted)]
    return [*words, "--superexec-auth-secret-file", str(kept(folder / "secret", where["secret"]))]


def run_until_end(world: Rendezvous, words: Sequence[str]) -> None:
    """Run a command until the federation has ended; fail if the command ends before."""
    process = started(words)
    ended = threading.Event()

    def end() -> None:
        while not ended.is_set():
            with suppress(RendezvousError):  # not yet
                world.exchange.get(ENDED, wait_s=WAIT_S)
                ended.set()
        process.terminate()

    threading.Thread(target=end, daemon=True).start()
    status = process.wait()
    if not ended.is_set():
        raise SystemExit(f"{words[0]} ended early, with status {status}")


def started(words: Sequence[str]) -> subprocess.Popen[str]:
    """Start one of Flower's services; its log is the component's standard error."""
    return subprocess.Popen([str(FLOWER / words[0]), *words[1:]], text=True, stdout=sys.stderr)


def flower(*words: str) -> str:
    """Run the command `flwr`, and return what it printed."""
    command = [str(FLOWER / "flwr"), *words]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout


def await_health(url: str, certificate: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the SuperLink answers."""
    trust = ssl.create_default_context(cafile=str(certificate))
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5, context=trust):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the SuperLink does not answer")


def certified(folder: Path, *addresses: str) -> tuple[Path, list[str]]:
    """Make a key, and a certificate of it for addresses; return the latter, and the options."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, addresses[0])])
    names = [alternative(address) for address in dict.fromkeys(addresses)]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of other sites may be behind
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_path = kept(folder / "key.pem", key.private_bytes(pem, form, plain).decode())
    path = kept(folder / "certificate.pem", certificate.public_bytes(pem).decode())
    options = ["--ssl-certfile", str(path), "--ssl-keyfile", str(key_path)]
    return path, [*options, "--ssl-ca-certfile", str(path)]


def alternative(address: str) -> x509.GeneralName:
    """Write an address as a certificate has it: a number, or a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def kept(path: Path, text: str) -> Path:
    """Write a text to a file that only this user can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def main() -> None:
    """Run the part that the description asks for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("part", choices=["superlink", "supernode", "superexec"])
    options.add_argument("--supernodes", type=int, default=2, help="in the federation")
    given = options.parse_args()
    world = Rendezvous.from_environment("flower")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(
            PATH=f"{FLOWER}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            FLWR_HOME=name,
            FLWR_LOG_LEVEL="WARNING",
            FLWR_TELEMETRY_ENABLED="0",
            FLWR_DISABLE_UPDATE_CHECK="1",
        )
        if given.part == "superlink":
            superlink(world, folder, given.supernodes)
        elif given.part == "supernode":
            run_until_end(world, supernode(world, folder))
        else:
            run_until_end(world, superexec(world, folder))


if __name__ == "__main__":
    main()
