"""The recipe for compose: it runs what the image has."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.tidy.sources import ROOT


def test_the_compose_file_runs_what_the_image_has() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))["services"]
    image = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    assert f"CMD {services['daemon']['command']}".replace("'", '"') in image
    exposed = re.search(r"^EXPOSE (.*)$", image, re.MULTILINE)
    assert exposed
    assert services["daemon"]["ports"] == [f"{port}:{port}" for port in exposed[1].split()]
    daemon = tomllib.loads((ROOT / "deploy" / "daemon.toml").read_text(encoding="utf-8"))
    assert daemon["relay"]["listen"].endswith(exposed[1].split()[-1])
    for service in services.values():
        state, config = service["volumes"]
        assert state.endswith(":/var/lib/koala")
        assert service["command"][-1] in config
