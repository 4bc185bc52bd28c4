"""Run the job process of an NVFlare client as a job of Koala.

The client itself, the parent in NVFlare's words, runs beside the site, such as on a login node. For
each NVFlare job it starts one process that trains. With this launcher that process is a job of
Koala at the client's site, in the queue of its batch system. Put this file into local/custom of the
client's startup kit, and name it in local/resources.json in place of ClientProcessJobLauncher.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, JobConstants
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import (
    JobHandleSpec,
    JobLauncherSpec,
    JobProcessArgs,
    JobReturnCode,
    add_launcher,
)
from nvflare.apis.workspace import Workspace
from nvflare.utils.job_launcher_utils import (
    get_client_job_args,
    get_credential_env,
    get_portable_resource_spec,
)

import koala
from koala import Component, Job
from koala.errors import UnreachableError

AGAIN_S = 5.0
"""Pause before the daemon is asked again when it does not answer."""
OUTCOMES = {"Finished": JobReturnCode.SUCCESS, "Cancelled": JobReturnCode.ABORTED}
"""NVFlare's word for how a job of Koala ended; any other end is an error."""
log = logging.getLogger(__name__)


class KoalaJobHandle(JobHandleSpec):
    """A job of Koala, as NVFlare sees it."""

    def __init__(self, job: Any, credentials: Path) -> None:
        self._job = job
        self._credentials = credentials
        self._ended: int | None = None

    def terminate(self) -> None:
        """Cancel the job; nothing happens if it is over."""
        self._job.cancel()

    def poll(self) -> int:
        """Return how the job ended; UNKNOWN while it has not."""
        return JobReturnCode.UNKNOWN if self._ended is None else self._ended

    def wait(self) -> None:
        """Wait until the job is over, also while the daemon does not answer."""
        while self._ended is None:
            try:
                phase = self._job.wait()
                log.info("job %s of Koala: %s", self._job.job, self._job.why())
            except UnreachableError as error:
                log.warning("job %s of Koala: %s", self._job.job, error)
                time.sleep(AGAIN_S)
                continue
            self._ended = OUTCOMES.get(phase, JobReturnCode.EXECUTION_ERROR)
        self._credentials.unlink(missing_ok=True)


class KoalaJobLauncher(JobLauncherSpec):
    """Submit the job process of a client to one site of Koala.

    - `site`: the site's name in Koala; default: the client's name.
    - `wall_time`: minutes that a job process may run.
    - `processors`: for a job that does not say num_of_cpus in its resource_spec.
    - `retry`: times that a job process that failed is started again.
    - `parent_host`: name or address at which the site's machines reach this client; needed when
      they are other machines, together with a port in local/comm_config.json.
    """

    def __init__(
        self,
        site: str = "",
        wall_time: int = 60,
        processors: int = 1,
        retry: int = 0,
        parent_host: str = "",
    ) -> None:
        super().__init__()
        self._site = site
        self._wall_time = wall_time
        self._processors = processors
        self._retry = retry
        self._parent_host = parent_host
        self._client: koala.Client | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Offer this launcher when NVFlare is about to launch a job."""
        if event_type == EventType.BEFORE_JOB_LAUNCH:
            add_launcher(self, fl_ctx)

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> KoalaJobHandle:
        """Submit the job process, once for an NVFlare job and a client."""
        name, client = job_meta[JobConstants.JOB_ID], fl_ctx.get_identity_name()
        workspace: Workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        given: dict[str, tuple[str, str]] = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
        wanted = get_portable_resource_spec(job_meta, client)
        credentials = _keep(Path(workspace.get_run_dir(name)), get_credential_env(given))
        paths = [workspace.get_app_custom_dir(name), os.environ.get("PYTHONPATH", "")]
        process = Component(
            label=client,
            site=self._site or client,
            executable="/bin/sh",
            arguments=["-c", '. "$0" && exec "$@"', str(credentials), *self._words(given)],
            environment={"PYTHONPATH": os.pathsep.join(path for path in paths if path)},
            processors=wanted.get("num_of_cpus", self._processors),
            gpus=wanted.get("num_of_gpus") or None,
            job_type="single",
            wall_time=self._wall_time,
        )
        if self._client is None:
            self._client = koala.Client()
        described = Job(name=f"nvflare-{client}", components=[process], retry=self._retry or None)
        try:
            job = self._client.submit(described, key=f"nvflare/{name}/{client}")
        except BaseException:
            credentials.unlink()
            raise
        log.info("job process of %s is job %s of Koala", name, job.job)
        return KoalaJobHandle(job, credentials)

    def _words(self, given: Mapping[str, tuple[str, str]]) -> list[str]:
        """Make the command of the job process."""
        words = [sys.executable, *given[JobProcessArgs.EXE_MODULE]]
        for name in get_client_job_args(include_exe_module=False):
            if name not in given:
                continue
            option, value = given[name]
            if name == JobProcessArgs.PARENT_URL and self._parent_host:
                value = _at(value, self._parent_host)
            words += [option, *(shlex.split(value) if name == JobProcessArgs.OPTIONS else [value])]
        return words


def _at(url: str, host: str) -> str:
    """Replace the host in an address of the client."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{host}:{parts.port}").geturl()


def _keep(folder: Path, credentials: Mapping[str, str]) -> Path:
    """Write the credentials of a job process where only this account reads them.

    They never leave the site: the description of a job, which Koala's daemon keeps, has only the
    file's name.
    """
    path = folder / "credentials.sh"
    path.touch(mode=0o600)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in credentials.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return path
