"""The job descriptions of the examples: Globus RSL that says what the programs understand."""

import json
from pathlib import Path
from typing import Any

import pytest

from koala.job_descriptions import read_job
from koala.job_descriptions.evaluation import canonical_name, evaluate
from koala.job_descriptions.parser import parse
from koala.job_descriptions.tree import canonical_json
from tests.examples.programs import ADVANCE, ALLREDUCE, DILOCO, FEDAVG, POISSON
from tests.examples.stage import EXAMPLES

DEFINITIONS = {
    "PROGRAM": "/home/user/sum",
    "PROGRESS": "sq",
    "WORK": "8",
    "SECONDS": "120",
    "QUIET_SITE": "quiet",
    "BUSY_SITE": "busy",
    "KITS": "/kits",
    "LIGHTHOUSE": "http://127.0.0.1:29500",
}
DESCRIPTIONS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.rsl"))
SPLIT = {
    "diloco/diloco.rsl": (4, 1),
    "frameworks/torchft-malleable.rsl": (3, 1),
    "frameworks/torchrun.rsl": (4, 4),
    "allreduce/allreduce.rsl": (8, 8),
    "mpi/mpi.rsl": (10, 10),
}
"""They have one clause, which the scheduler splits: their processors, and those they start with."""
FIXED = [name for name in DESCRIPTIONS if name not in SPLIT]
SITES = {"vu": 144, "delft": 64, "leiden": 64, "amsterdam": 64, "utrecht": 64}
"""The grid that the descriptions are written for (KOALA 2.1): the DAS."""
TWO = {"quiet": 2, "busy": 2}
"""Grid of sq/two.toml."""
FRAMEWORKS = tuple(name for name in DESCRIPTIONS if name.startswith("frameworks/"))
"""They start programs of frameworks; test_frameworks.py and test_torchft.py run them."""
ALONE = ("frameworks/torchft-group.rsl",)
"""They have one component, which joins a job that runs."""
SHELL = ("deadline.rsl", "gpus.rsl", "hello.rsl", *FRAMEWORKS)
"""They start programs that every site has, or that their user installs."""
PROGRAMS: dict[str, Any] = {
    "allreduce.py": ALLREDUCE,
    "diloco.py": DILOCO,
    "fedavg.py": FEDAVG,
    "poisson.py": POISSON,
    "advance.py": ADVANCE,
}
JOB_WIDE = {
    *(
        "asynchrony",
        "progress",
        "deadline",
        "distinct",
        "priority",
        "inputfile",
        "inputmode",
        "maxhold",
    ),
    *("name", "quorum", "retry"),
}
OF_A_COMPONENT = {
    *("executable", "arguments", "environment", "count", "jobtype", "maxwalltime", "label"),
    *("resourcemanagercontact", "subjobstarttype", "outputfile", "gpus", "cpuspertask", "ports"),
}


def _clauses(name: str) -> tuple[dict[str, list[Any]], list[dict[str, list[Any]]]]:
    """The job-wide relations and those of each component, by canonical attribute name."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    definitions = {**DEFINITIONS, "HERE": str((EXAMPLES / name).parent)}
    tree = json.loads(canonical_json(evaluate(parse(text), definitions)))
    assert tree["bool"] == "+"
    wide, components = {}, []
    for operand in tree["operands"]:
        if "attr" in operand:
            wide[canonical_name(operand["attr"])] = operand["values"]
        else:
            relations = operand["operands"]
            components.append({canonical_name(one["attr"]): one["values"] for one in relations})
    return wide, components


@pytest.mark.parametrize("name", SPLIT)
def test_a_total_is_split_by_the_scheduler(name: str) -> None:
    definitions = {**DEFINITIONS, "HERE": str((EXAMPLES / name).parent)}
    reading = read_job((EXAMPLES / name).read_text(encoding="utf-8"), definitions=definitions)
    assert reading.warnings == ()
    split = reading.spec.split
    assert split is not None
    assert (split.total, split.least) == SPLIT[name]
    program, *arguments = reading.spec.components[0].arguments or ("",)
    if Path(program).name in PROGRAMS:
        assert Path(program).is_file()
        PROGRAMS[Path(program).name]._options(arguments)


@pytest.mark.parametrize("name", FIXED)
def test_a_description_uses_known_attributes_and_fits_the_grid(name: str) -> None:
    wide, components = _clauses(name)
    assert set(wide) <= JOB_WIDE
    assert len({component["label"][0] for component in components}) == len(components)
    assert (len(components) == 1) == (name in ALONE)
    for component in components:
        assert set(component) <= OF_A_COMPONENT
        (site,) = component.get("resourcemanagercontact", ["delft"])
        assert 1 <= int(component["count"][0]) <= {**SITES, **TWO}[site]
        assert component.get("jobtype", ["multiple"])[0] in {"single", "multiple", "mpi"}
        assert int(component["maxwalltime"][0]) >= 1


@pytest.mark.parametrize("name", [name for name in FIXED if name not in SHELL])
def test_a_program_understands_the_arguments_that_its_description_gives(name: str) -> None:
    for component in _clauses(name)[1]:
        path, *arguments = component["arguments"]
        assert Path(path).is_file()
        assert component["executable"] == ["python3"]
        PROGRAMS[Path(path).name]._options(arguments)


def test_the_readme_tells_of_every_description() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in DESCRIPTIONS if f"`{name}`" not in readme] == []
