"""Sites as people have them, and what their rules do to jobs: the cases of one contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SITE = "alpha"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A component's size and further RSL, and the words that tell what becomes of it."""

    count: int = 1
    more: str = ""
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One site. The profiles are those of deploy/dev, which may be combined.

    - `idle` is said to be idle while no job of ours is there: nothing where others wait.
    - `usual` is RSL of each component.
    - `never` is what the site cannot take, with words of the reason that is told.
    - `first` runs and leaves no room for `late`, which wait for reasons of the batch system.
    - `make test-fleet` alone tries what `is_long`, or is rare.
    """

    profile: str
    kind: Literal["slurm", "gridengine"] = "slurm"
    idle: int = 32
    usual: str = ""
    never: tuple[Wish, ...] = ()
    first: Wish | None = None
    late: tuple[Wish, ...] = ()
    is_long: bool = False


CASES = (
    Case(
        profile="limits",
        idle=18,
        never=(
            Wish(more="(maxWallTime=120)", words="alpha allows 60 min at most in batch"),
            Wish(count=20, words="alpha allows 18 processors a job at most in batch"),
        ),
        late=(Wish(more="(queue=full)", words="Priority"),),
    ),
    Case(
        profile="whole-nodes,noisy",
        never=(Wish(more="(queue=night)", words="alpha has no queue night"),),
        is_long=True,
    ),
    Case(
        profile="threads,filters",
        usual="(project=physics)",
        never=(
            Wish(words="You must specify an account"),
            Wish(more="(memory=100000)", words="alpha has at most 64000 MB on a host"),
        ),
    ),
    Case(
        profile="maintenance,homes",
        late=(Wish(more="(maxWallTime=30)", words="Reserved for maintenance"),),
        is_long=True,
    ),
    Case(
        profile="busy,preemption",
        idle=0,
        late=(Wish(count=32, words="Priority"),),
        is_long=True,
    ),
    Case(
        profile="accounting",
        never=(Wish(more="(project=closed)", words="Job violates accounting/QOS policy"),),
        first=Wish(count=10, more="(project=physics)"),
        late=(
            Wish(count=10, more="(project=physics)", words="AssocGrpCpuLimit"),
            Wish(more="(project=chem)(maxWallTime=60)", words="AssocGrpCPUMinutesLimit"),
        ),
        is_long=True,
    ),
    Case(profile="linear,slow", is_long=True),
    Case(profile="power", is_long=True),
    Case(
        kind="gridengine",
        profile="queues,calendar",
        idle=16,
        late=(Wish(more="(queue=night)", words="its calendar has switched it off"),),
        is_long=True,
    ),
    Case(
        kind="gridengine",
        profile="quotas,forced",
        idle=12,  # of 16
        usual='(native="-l h_vmem=1G")',
        never=(Wish(count=13, words="alpha allows 12 processors a job at most"),),
        first=Wish(count=12),
        late=(Wish(words="beyond what resource quotas allow"),),
    ),
)
