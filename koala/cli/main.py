"""Entry point of `koala`: the command table, error messages and exit statuses.

Only the module of the called command is imported. Help and completion import all of them. That is
quick, because the modules import heavy packages late.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from collections.abc import Sequence

import click

from koala.cli.lazy_group import CALLED, LazyGroup
from koala.common.runtime.progress_bar import QUIET_VARIABLE
from koala.common.runtime.standard_streams import open_standard_streams
from koala.common.wire.grpc_variables import VERBOSITY, set_grpc_variables
from koala.errors import ConfigError, KoalaError, SpecError, UnreachableError, system_error_text

FAILED, WRONG, UNREACHABLE = 1, 2, 3
INTERRUPTED = 130

SECTIONS: dict[str, dict[str, str]] = {
    "Start": {
        "up": "@up",
        "demo": "@demo",
        "web": "@web",
        "top": "koala.cli.top.command:top",
        "examples": "@examples",
        "init": "@init",
        "doctor": "koala.cli.admin.doctor:doctor",
    },
    "Jobs": {
        "run": "koala.cli.jobs.run:run",
        "submit": "koala.cli.jobs.submit:submit",
        "list": "koala.cli.jobs.status:list_jobs",
        "show": "koala.cli.jobs.status:show",
        "why": "koala.cli.jobs.status:why",
        "timeline": "koala.cli.jobs.status:timeline",
        "wait": "koala.cli.jobs.follow:wait",
        "watch": "koala.cli.jobs.follow:watch",
        "cancel": "koala.cli.jobs.status:cancel",
        "resize": "koala.cli.jobs.status:resize",
        "logs": "koala.cli.jobs.logs:logs",
        "outputs": "koala.cli.jobs.outputs:outputs",
    },
    "Grid": {
        "site": "koala.cli.admin.sites:site",
        "files": "koala.cli.files:files",
    },
    "People": {
        "user": "koala.cli.admin.users:user",
        "group": "koala.cli.admin.groups:group",
        "login": "koala.cli.admin.users:login",
        "notify": "koala.cli.notify:notify",
    },
    "Administration": {
        "daemon": "@daemon",
        "admin": "koala.cli.admin:admin",
    },
    "Research": {
        "simulate": "@simulate",
        "replay": "@replay",
        "reproduce": "@reproduce",
        "sweep": "@sweep",
        "twin": "@twin",
        "yardstick": "@yardstick",
    },
}
"""Place of each command, in the sections and the order of the help text (see LazyGroup)."""

SHORT = {
    "Grid": "Manage sites, and the files that jobs read.",
    "People": "Users, groups, and limits of both.",
    "Administration": "Run the daemon; queues, metrics, costs, backups.",
    "Research": "Simulations.",
}
"""Sections whose commands share a line of the help text, for it to fit a small terminal."""

ALIASES: dict[str, str] = {
    "sites": "koala.cli.admin.sites:site",
    "rsl": "koala.cli.jobs.rsl:rsl",
    "convert": "koala.cli.jobs.convert:convert",
    "report": "koala.cli.admin.report:report",
    "drain": "koala.cli.admin.sites:drain",
    "resume": "koala.cli.admin.sites:resume",
    "metrics": "koala.cli.admin.sites:metrics",
    "queues": "koala.cli.admin.sites:queues",
    "audit": "koala.cli.admin.users:audit",
    "authority": "@authority",
    "backup": "@backup",
    "restore": "@restore",
}
"""Other spellings of commands of groups, which the help text does not list."""

COMMANDS = [name for places in SECTIONS.values() for name in places]
"""Names of the listed commands."""

DEBUG_VARIABLE = "KOALA_DEBUG"
COMPLETION_VARIABLE = "_KOALA_COMPLETE"
LONG_RUNNING = ("demo", "up", "daemon", "web")
"""Commands that exit through the interpreter's normal shutdown; the others skip it, see `main`."""
WITH_TEMPORARY_FOLDERS = ("demo", "up", "backup", "restore", "admin")
"""Commands that remove temporary folders on exit. They react to the first ending signal only."""
WITH_WORKERS = ("simulate", "reproduce", "sweep", "twin", "yardstick")
"""Commands with worker processes and partial files. They clean both up when a signal ends them."""
OBJECTS_PER_COLLECTION = 100_000
"""New objects after which the garbage collector of a command searches for cycles; its imports make
fewer. With Python's default of 700 these searches take a twentieth of a short command."""


class Koala(LazyGroup):
    """The group of all commands, whose help fits a small terminal."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, and a line for each command, the section's name before its first."""
        formatter.write(
            "Usage: koala [--version] [--debug] [--quiet] COMMAND ...  (koala COMMAND --help)\n"
        )
        for section, places in self.sections.items():
            if section in SHORT:
                formatter.write(f"{section:<16}{' '.join(places)}  {SHORT[section]}\n")
                continue
            for number, (name, text) in enumerate(self.lines(ctx, places, formatter.width)):
                formatter.write(f"{'' if number else section:<16}{name:<11}{text}\n")


def _print_version(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    from koala.common.runtime.software import DISTRIBUTION

    try:
        print(f"koala {version(DISTRIBUTION)}")
    except PackageNotFoundError:
        print("koala of a source tree that is not installed")
    context.exit()


def _begin(*, debug: bool, quiet: bool) -> None:
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    if quiet:
        os.environ[QUIET_VARIABLE] = "1"


application = Koala(
    "koala",
    SECTIONS,
    hidden=ALIASES,
    callback=_begin,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        click.Option(["--debug"], is_flag=True, envvar=DEBUG_VARIABLE),
        click.Option(["--quiet"], is_flag=True, envvar=QUIET_VARIABLE),
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version
        ),
    ],
)
"""All commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    Without `arguments` the command is the process. A short command then exits with `os._exit`: the
    shutdown of gRPC and the interpreter would take a fifth of its time.
    """
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = next((word for word in words if not word.startswith("-")), "")
    if arguments is None and named not in LONG_RUNNING:
        gc.set_threshold(OBJECTS_PER_COLLECTION)
    if arguments is None and named == "daemon":
        set_grpc_variables()
    elif arguments is None:
        os.environ.setdefault(VERBOSITY, "NONE")
    with contextlib.ExitStack() as stack:
        if arguments is None and named in WITH_TEMPORARY_FOLDERS:
            from koala.common.runtime.child_lifetime import end_once, ended_by

            end_once(ended_by)
        if arguments is None and named in WITH_WORKERS:
            from koala.common.runtime.child_lifetime import ended_in_order

            stack.enter_context(ended_in_order())
        status, called = _run(words)
    if arguments is None:
        status = _flushed(status, words, called)
        if named not in LONG_RUNNING:
            os._exit(status)
    return status


def _run(words: list[str]) -> tuple[int, str]:
    """Run one command; return the exit status and the command's path."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from koala.cli.completion import answer

        return answer(application, instruction), "koala"
    noted = {CALLED: "koala"}
    return _status(words, noted), noted[CALLED]


def _status(words: list[str], noted: dict[str, str]) -> int:
    try:
        _invoke(words, noted)
    except click.exceptions.Exit as end:
        return end.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except click.ClickException as error:
        if not _is_json(words):
            error.show()
            return error.exit_code
        return _report(SpecError(error.format_message()), words, noted[CALLED])
    except KoalaError as error:
        return _report(error, words, noted[CALLED])
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _invoke(words: list[str], noted: dict[str, str]) -> None:
    """Run the command; translate errors of the system to ours."""
    try:
        with application.make_context("koala", list(words), obj=noted) as context:
            application.invoke(context)
    except UnicodeEncodeError as error:  # invalid bytes of the command line arrive as surrogates
        raise SpecError(f"{error.object!r} is not valid UTF-8") from error
    except BrokenPipeError:  # the reader has closed the pipe
        raise click.exceptions.Exit(FAILED) from None
    except KoalaError:  # a TimeLimitError is an OSError, too
        raise
    except OSError as error:
        raise KoalaError(system_error_text(error)) from error


def _flushed(status: int, words: Sequence[str], called: str) -> int:
    """Flush the standard streams; a result that cannot be written is an error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if status == 0 and not isinstance(error, BrokenPipeError):
            lost = KoalaError(f"standard output: cannot be written: {error.strerror}")
            _report(lost, words, called)
        status = status or FAILED
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return status


def _report(error: KoalaError, words: Sequence[str], called: str) -> int:
    """Print the error, as JSON with --json, and return its exit status; print the traceback only
    with `--debug`."""
    from koala.cli.output import json_text, say

    status = FAILED
    if isinstance(error, SpecError | ConfigError):
        status = WRONG
    elif isinstance(error, UnreachableError):
        status = UNREACHABLE
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    if _is_json(words):
        say(json_text({"error": {"command": called, "text": str(error), "status": status}}))
    else:
        say(f"{called}: {error}")
    return status


def _is_json(words: Sequence[str]) -> bool:
    return "--json" in itertools.takewhile(lambda word: word != "--", words)
