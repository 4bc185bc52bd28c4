"""The table `[metrics]` of configuration files, and its check.

Metrics are served only if the table is there. On an address that others reach they need TLS or a
token, unless `insecure` says that they may be read by everybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from koala.common.identity.tls import is_loopback
from koala.common.runtime.paths import written_path
from koala.common.runtime.settings_file import Endpoint, Table, check_port
from koala.common.runtime.software import METRICS, missing_text
from koala.errors import ConfigError


class MetricsTable(Table, frozen=True):
    """Address and protection of the metrics; `sites_max` sites have series of their own."""

    listen: Endpoint
    certificate: str = ""
    key: str = ""
    token_file: str = ""
    insecure: bool = False
    sites_max: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Checked settings of one endpoint. Paths are absolute, or empty.

    The address that it finally has is written to `url_file`.
    """

    listen: str
    url_file: str
    certificate: str = ""
    key: str = ""
    token_file: str = ""
    sites_max: int = 1_000


def metrics_settings(
    table: MetricsTable, *, key: str, listen: str, source: str, folder: Path, url_file: Path
) -> MetricsSettings:
    """Check a table for one address, `listen` of the key `key`. Raises ConfigError."""
    if text := missing_text("metrics", METRICS):
        raise ConfigError(f"{source}: [metrics] {text}")
    check_port(source, key, listen)
    if bool(table.certificate) != bool(table.key):
        present, missing = ("certificate", "key") if table.certificate else ("key", "certificate")
        raise ConfigError(f"{source}: metrics.{present} needs metrics.{missing}, too")
    if not (is_loopback(listen) or table.certificate or table.token_file or table.insecure):
        raise ConfigError(
            f"{source}: {key} = {listen!r} (expected a loopback address, as"
            " 127.0.0.1:9740). Others need metrics.certificate and metrics.key, or"
            " metrics.token_file; or metrics.insecure = true, if everybody may read the metrics"
        )
    paths = {
        name: str(folder / written_path(written, key=f"{source}: metrics.{name}"))
        for name in ("certificate", "key", "token_file")
        if (written := getattr(table, name))
    }
    return MetricsSettings(
        listen=listen, url_file=str(url_file), sites_max=table.sites_max, **paths
    )
