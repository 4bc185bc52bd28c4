"""Managers of malleable jobs (Buisson, Sonmez, Mohamed, Lammers, Epema, Cluster 2007).

The paper was not at hand: the two rules are built from what is known of them. The bounds of jobs
and components are ours.
"""

from __future__ import annotations

from dataclasses import replace

from koala.core.model.values import JobId
from koala.core.policy_api import MalleableJob, ResizePlan, ResizeQuestion, ResizeShare


def favour_previously_started(question: ResizeQuestion) -> ResizePlan:
    """Let the job that started first grow as far as it may, then the next one. Of those that give
    back, the one that started last is the first (FPSMA)."""
    jobs = sorted(question.jobs, key=lambda job: (job.started_at, job.job))
    left, shares = question.processors, {}
    for job in reversed(jobs) if question.wants_back else jobs:
        share = min(left, _most(job, question))
        if share >= _smallest(job, question):
            shares[job.job] = share
            left -= share
    return _plan(shares)


def equi_grow_and_shrink(question: ResizeQuestion) -> ResizePlan:
    """Share the processors equally among the jobs; those that can take less leave the rest to the
    others (EGS)."""
    jobs = sorted(question.jobs, key=lambda job: (job.started_at, job.job))
    left, open_, shares = question.processors, jobs, dict.fromkeys([j.job for j in jobs], 0)
    while left and open_:
        each, more = divmod(left, len(open_))
        for number, job in enumerate(open_):
            share = min(each + (number < more), _most(job, question) - shares[job.job])
            shares[job.job] += share
            left -= share
        open_ = [job for job in open_ if shares[job.job] < _most(job, question)]
    small = [job.job for job in jobs if 0 < shares[job.job] < _smallest(job, question)]
    if small:  # a share below the least component helps nobody: fewer jobs have larger ones
        kept = tuple([job for job in question.jobs if job.job != small[-1]])
        return equi_grow_and_shrink(replace(question, jobs=kept))
    return _plan(shares)


def _most(job: MalleableJob, question: ResizeQuestion) -> int:
    return job.spare if question.wants_back else job.room


def _smallest(job: MalleableJob, question: ResizeQuestion) -> int:
    return 1 if question.wants_back else job.part_min


def _plan(shares: dict[JobId, int]) -> ResizePlan:
    return ResizePlan(
        shares=tuple([ResizeShare(job=job, processors=n) for job, n in shares.items() if n])
    )
