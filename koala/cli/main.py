"""Entry point of `koala`: the command table, error messages and exit statuses.

Only the module of the called command is imported. Help, completion and a misspelt name import all
of them. That is quick, because the modules import heavy packages late.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from koala.cli.coercion import avoid_pydantic
from koala.errors import ConfigError, KoalaError, SpecError, UnreachableError
from koala.runtime.standard_streams import open_standard_streams

FAILED, WRONG, UNREACHABLE = 1, 2, 3
INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "demo": "koala.cli.local.demo:demo",
    "up": "koala.cli.local.up:up",
    "daemon": "koala.cli.local.up:daemon",
    "submit": "koala.cli.jobs.submit:submit",
    "list": "koala.cli.jobs.status:list_jobs",
    "show": "koala.cli.jobs.status:show",
    "why": "koala.cli.jobs.status:why",
    "timeline": "koala.cli.jobs.status:timeline",
    "wait": "koala.cli.jobs.follow:wait",
    "cancel": "koala.cli.jobs.status:cancel",
    "logs": "koala.cli.jobs.follow:logs",
    "outputs": "koala.cli.jobs.outputs:outputs",
    "watch": "koala.cli.jobs.follow:watch",
    "sites": "koala.cli.admin.sites:sites_commands",
    "site": "koala.cli.admin.sites:site_commands",
    "drain": "koala.cli.admin.sites:drain",
    "resume": "koala.cli.admin.sites:resume",
    "files": "koala.cli.admin.sites:files",
    "metrics": "koala.cli.admin.sites:metrics",
    "report": "koala.cli.admin.report:report",
    "user": "koala.cli.admin.users:user_commands",
    "audit": "koala.cli.admin.users:audit",
    "authority": "koala.cli.admin.authority:authority_commands",
    "rsl": "koala.cli.jobs.rsl:rsl",
    "convert": "koala.cli.jobs.convert:convert",
    "simulate": "koala.cli.research.simulate:simulate_commands",
    "replay": "koala.cli.research.replay:replay",
    "backup": "koala.cli.admin.backup:backup",
    "restore": "koala.cli.admin.backup:restore",
    "reproduce": "koala.cli.research.reproduce:reproduce",
}
"""Maps each command to its function, in the order of the help text."""

GROUPS = ("sites", "site", "user", "authority", "simulate")
"""Commands with subcommands. Their function builds a typer application from the words that
follow."""

DEBUG_VARIABLE = "KOALA_DEBUG"


LONG_RUNNING = ("demo", "up", "daemon")
"""Commands that exit through the interpreter's normal shutdown; the others skip it, see `main`."""

WITH_TEMPORARY_FOLDERS = ("demo", "up", "backup", "restore")
"""Commands that remove temporary folders on exit. They react to the first ending signal only."""

WITH_WORKERS = ("simulate", "reproduce")
"""Commands with worker processes and partial files. They clean both up when a signal ends them."""

GC_THRESHOLD = 100_000
"""New objects before a garbage collection. Imported objects stay alive; scanning them repeatedly
costs a fifteenth of a short command's time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    Without `arguments` the command is the process. A short command then exits with `os._exit`:
    the shutdown of gRPC and the interpreter would take a fifth of its time.
    """
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = next((word for word in words if word in COMMANDS), "")
    is_long_running = named in LONG_RUNNING
    if arguments is None:
        _silence_grpc(words)
    if arguments is None and not is_long_running:
        gc.set_threshold(GC_THRESHOLD)
    if arguments is None and named in WITH_TEMPORARY_FOLDERS:
        from koala.runtime.child_lifetime import end_once, ended_by

        end_once(ended_by)
    has_workers = arguments is None and named in WITH_WORKERS
    with _orderly_shutdown() if has_workers else contextlib.nullcontext():
        status = _run(words)
    if arguments is None and not is_long_running:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        try:
            sys.stdout.flush()
        except OSError as error:  # the result is lost
            if status == 0 and not isinstance(error, BrokenPipeError):
                _print_error(words, f"standard output: cannot be written: {error.strerror}")
            status = status or FAILED
        os._exit(status)
    return status


def _orderly_shutdown() -> contextlib.AbstractContextManager[None]:
    from koala.runtime.child_lifetime import ended_in_order

    return ended_in_order()


def _silence_grpc(words: Sequence[str]) -> None:
    """Keep gRPC's core from logging to standard error; call it before gRPC is imported.

    The daemon sets its own level (`koala.daemon`).
    """
    if next((word for word in words if word in COMMANDS), "") != "daemon":
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _run(words: Sequence[str]) -> int:
    try:
        command = typer.main.get_command(application(words))
        avoid_pydantic(command)
        command(args=list(words), prog_name="koala")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KoalaError as error:
        return _report(error, words)
    except UnicodeEncodeError as error:  # invalid bytes of the command line arrive as surrogates
        return _report(SpecError(f"{error.object!r} is no text in UTF-8"), words)
    except BrokenPipeError:
        return FAILED  # the reader has closed the pipe
    except OSError as error:
        named = f"{error.filename}: " if error.filename is not None else ""
        return _report(KoalaError(f"{named}{error.strerror or error}"), words)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def application(words: Sequence[str] = ()) -> typer.Typer:
    """Build the command line; if `words` begin with a command's name, with that command alone."""
    app = typer.Typer(
        name="koala",
        help="Start the parts of one job on several clusters at the same time.",
        no_args_is_help=True,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    if list(words) == ["--version"]:
        return app  # needs no command
    named = next((word for word in words if not word.startswith("-")), "")
    for name in [named] if named in COMMANDS and _is_plain(words, named) else COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if name in GROUPS:
            after = list(words)[list(words).index(name) + 1 :] if name in words else []
            app.add_typer(command(after), name=name)
        else:
            app.command(name)(command)
    return app


def _is_plain(words: Sequence[str], named: str) -> bool:
    """True if only `--debug` stands before the command, and no completion is requested."""
    before = list(words)[: list(words).index(named)]
    return "_KOALA_COMPLETE" not in os.environ and all(word == "--debug" for word in before)


def _options(
    context: typer.Context,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the whole traceback of an error.", envvar=DEBUG_VARIABLE
        ),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Handle the options before the command."""
    if version:
        print(f"koala {_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(WRONG)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("koala-scheduler")
    except PackageNotFoundError:
        return "of a source tree that is not installed"


def _report(error: KoalaError, words: Sequence[str]) -> int:
    """Print the error and return its exit status; print the traceback only with `--debug`."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    _print_error(words, str(error))
    if isinstance(error, SpecError | ConfigError):
        return WRONG
    return UNREACHABLE if isinstance(error, UnreachableError) else FAILED


def _print_error(words: Sequence[str], text: str) -> None:
    from koala.cli.render.table import clean_lines

    command = next((word for word in words if word in COMMANDS), "")
    with contextlib.suppress(OSError):  # standard error is closed; the exit status is enough
        print(f"koala {command}:".replace(" :", ":"), clean_lines(text), file=sys.stderr)
