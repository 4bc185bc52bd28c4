"""`koala web`: the web page of a grid."""

from __future__ import annotations

from typing import Any

import click

from koala.cli.arguments import address_option, file, option
from koala.cli.extras import needs_web
from koala.cli.output import note
from koala.cli.requests import given_address


@click.command
@option(
    "--listen", default="127.0.0.1:7780", metavar="HOST:PORT",
    help="Address of the pages; port 0 takes a free one. Other than loopback needs TLS.",
)  # fmt: skip
@option("--certificate", type=file, help="Certificate for TLS, a PEM file with its chain.")
@option("--key", type=file, help="Private key of the certificate.")
@option(
    "--public-url", default="", metavar="URL",
    help="Address that browsers use, if a proxy is in between, as in https://example.org/koala.",
)  # fmt: skip
@option("--link-file", type=file, help="Write each new sign-in link to this file, too.")
@option(
    "--results", type=file, metavar="DIR", help="Show results of koala reproduce in this folder."
)
@option(
    "--journal", type=file, metavar="JOURNAL",
    help="Play back this past run (state directory, journal or backup), to operators.",
)  # fmt: skip
@address_option
@needs_web
def web(**options: Any) -> None:  # noqa: ANN401 - of WebSettings
    """Show the grid and its jobs in a browser.

    The process is a client of the daemon. The sign-in link that it prints signs one browser in as
    you; the next link is printed once a link is used. Others sign in with their tokens.
    """
    from koala.web.server import serve
    from koala.web.settings import WebSettings

    serve(WebSettings(**options), given_address(), say=lambda link: note(f"open {link}"))
