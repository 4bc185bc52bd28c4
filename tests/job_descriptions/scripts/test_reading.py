"""Batch scripts as components: they keep their meaning, or are refused with the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.core.model.job_spec import ComponentSpec, JobType
from koala.errors import SpecError
from koala.job_descriptions.job_reader import read_job
from koala.job_descriptions.job_writer import write_job
from koala.job_descriptions.scripts.draft import ScriptSite
from koala.job_descriptions.scripts.reading import SCRIPT_BYTES_MAX, read_scripts
from koala.job_descriptions.scripts.reading import read_script as read_parts
from koala.job_descriptions.scripts.slurm import slurm_seconds


def read_script(text: str, *, site: ScriptSite | None = None) -> tuple[ComponentSpec, list[str]]:
    """The only component of a script, and warnings."""
    (component,), warnings = read_parts(text, sites=None if site is None else [site])
    return component, warnings


def slurm(*directives: str, body: str = "hostname") -> ComponentSpec:
    lines = "".join(f"#SBATCH {directive}\n" for directive in directives)
    return read_script(f"#!/bin/bash\n{lines}\n{body}\n")[0]


def grid_engine(*directives: str) -> ComponentSpec:
    lines = "".join(f"#$ {directive}\n" for directive in directives)
    return read_script(f"#!/bin/sh\n{lines}hostname\n")[0]


PARTS = "#!/bin/sh\n#SBATCH -n 2 -t 5\n#SBATCH hetjob\n#SBATCH -n 4\n"


def test_a_script_is_run_by_its_own_interpreter_and_one_process() -> None:
    text = "#!/bin/bash -e\nhostname\n"
    component, warnings = read_script(text)
    assert (component.executable, component.arguments) == ("/bin/bash", ("-e", "-c", text))
    assert (component.job_type, component.processors, warnings) == (JobType.SINGLE, 1, [])


@pytest.mark.parametrize(
    ("directives", "processors"),
    [
        (("-n 4",), 4),
        (("--ntasks=4", "--cpus-per-task=3"), 12),
        (("-N 2", "--ntasks-per-node 8"), 16),
        (("--nodes=3",), 3),
        (("-c4",), 4),
    ],
)
def test_processors_are_tasks_times_those_of_each(
    directives: tuple[str, ...], processors: int
) -> None:
    assert slurm(*directives).processors == processors


def test_what_slurm_directives_say_of_a_component() -> None:
    component = slurm(
        '-J "my job" -t 90 # a remark', "-o out.txt -e err.txt", "-D /data", "-p fast -A physics"
    )
    assert component.label == "my job"
    assert component.wall_time_s == 5400
    assert (component.stdout, component.stderr) == ("out.txt", "err.txt")
    assert (component.directory, component.queue, component.project) == ("/data", "fast", "physics")


def test_what_grid_engine_directives_say_of_a_component() -> None:
    component = grid_engine(
        "-N train -pe mpi 8", "-l h_rt=1:30:00 -j y -o out.txt", "-v A=1,B=two -S /bin/bash -q long"
    )
    assert (component.label, component.processors, component.queue) == ("train", 8, "long")
    assert component.wall_time_s == 5400
    assert component.stdout == component.stderr == "out.txt"
    assert component.environment == (("A", "1"), ("B", "two"))
    assert component.executable == "/bin/bash"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("1:00:01", 3601),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-00:00:05", 86405),
    ],
)
def test_the_times_of_slurm(text: str, seconds: float) -> None:
    assert slurm_seconds(text) == seconds


def test_directives_end_at_the_first_command() -> None:
    text = "#!/bin/sh\n#SBATCH -n 2\n\n# a remark\n#SBATCH -c 2\necho\n#SBATCH -n 64\n"
    assert read_script(text)[0].processors == 4


def test_what_concerns_the_batch_system_alone_is_left_out_and_said() -> None:
    _, warnings = read_script("#!/bin/sh\n#SBATCH --mail-type=END --mail-user=a@b\ntrue\n")
    assert [warning.rpartition(":")[0] for warning in warnings] == [
        "line 2, column 9: --mail-type is left out",
        "line 2, column 25: --mail-user is left out",
    ]


def test_a_script_at_several_sites_says_once_what_is_left_out() -> None:
    text = "#!/bin/sh\n#SBATCH --mail-user=a@b\ntrue\n"
    read = read_scripts([("delft", "a.sh", text), ("vu", "a.sh", text), ("vu", "b.sh", text)])
    assert read.warnings == tuple(
        f"{name}.sh: line 2, column 9: --mail-user is left out: no mail is sent" for name in "ab"
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("echo", 1, "does not name an interpreter"),
        ("#!/usr/bin/Rscript\n", 1, "expected one of sh, bash"),
        ("#!/bin/sh\n#SBATCH --array=1-10\n", 2, "a component is one program"),
        ("#!/bin/sh\n\n#SBATCH --gres=gpu:a:1,gpu:b:1\n", 3, "expected one type of GPU"),
        ("\ufeff#!/bin/sh\n", 1, "byte order mark"),
        ("#!/bin/sh\r\ntrue\r\n", 1, "ends as in DOS"),
        ("#!/bin/sh\n#SBATCH --ntas=2\n", 2, "--ntas is ambiguous: expected one of --ntasks,"),
        ("#!/bin/sh\n#SBATCH --contiguous=yes\n", 2, "found the value 'yes', expected none"),
        ("#!/bin/sh\n#SBATCH --nice 5\n", 2, "'5' is not an option"),
        ("#!/bin/sh\n#SBATCH -n 2\n#SBATCH -N\n", 3, "-N: found no value"),
        ("#!/bin/sh\n#SBATCH --frobnicate=2\n", 2, "unknown option --frobnicate"),
        ("#!/bin/sh\n#SBATCH --mem=1G\n#SBATCH --mem-per-cpu=1G\n", 3, "no --mem beside it"),
        ("#!/bin/sh\n#SBATCH -N 1-2\n", 2, "a component has a fixed size"),
        ("#!/bin/sh\n#SBATCH -w n[1-2]\n", 2, "expected --ntasks beside it"),
        ("#!/bin/sh\n#SBATCH -n 2\n#SBATCH hetjob -n 4\n", 3, "passes over the rest of the line"),
        (f"{PARTS}x=$(srun --het-group=1 b)\n", 5, r"that begins one\); or give each part"),
        (f"{PARTS}srun --het-group=2 b\n", 5, "found '2', expected 0 to 1"),
        (f"{PARTS}srun --het-group=1 b | tee out\n", 5, "expected one `srun` on a line"),
        ("#!/bin/sh\n#SBATCH --signal=B:USR1@60\n", 2, "no signal comes before the end"),
        ("#!/bin/sh\n#$ -pe smp 2-8\n", 2, "a component has a fixed size"),
        ("#!/bin/sh\n#$ -l h_rt=1:00\n", 2, "-l h_rt: invalid time '1:00'"),
        ("#!/bin/sh\ntrue\n#$ -frobnicate\n", 3, "unknown option -frobnicate"),
        ("#!/bin/sh\n#$ -o host:/tmp/out\n", 2, "expected one path"),
        ("#!/bin/sh\n#SBATCH --gpus=many\n", 2, "--gpus: invalid number 'many'"),
        ("#!/bin/sh\n#SBATCH --gpus-per-socket=1\n", 2, "use --gpus, --gpus-per-node"),
        ("#!/bin/sh\n#SBATCH -L matlab:0\n", 2, "--licenses: found 'matlab:0', expected NAME"),
        ('#!/bin/sh\n#SBATCH --constraint=";"\n', 2, "--constraint: found ';'"),
        ("#!/bin/sh\n#SBATCH -n four\n", 2, "--ntasks: invalid number 'four'"),
        ("#!/bin/sh\n#SBATCH -t soon\n", 2, r"--time soon \(expected MINUTES"),
        ("#!/bin/sh\n#SBATCH --mem=lots\n", 2, "expected a size such as 500M or 4G"),
        ('#!/bin/sh\n#SBATCH -J "open\n', 2, 'found no second ", expected one'),
        ("#!/bin/sh\n#SBATCH train\n", 2, "'train' is not an option"),
        ("#!/bin/sh\n#$ -pe mpi\n", 2, "-pe: expected 2 values"),
        ("#!/bin/sh\n#$ -l gpu=two\n", 2, "-l gpu: invalid number 'two'"),
        ("#!/bin/sh\n#BSUB -n 1\n", 2, r"#BSUB directives \(expected one of"),
    ],
)
def test_what_would_change_its_meaning_is_refused_with_the_line(
    text: str, line: int, message: str
) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        read_script(text)
    assert caught.value.position is not None
    assert caught.value.position.line == line


def test_a_script_that_is_too_long_for_an_argument_is_refused() -> None:
    with pytest.raises(SpecError, match=f"expected at most {SCRIPT_BYTES_MAX}"):
        read_script("#!/bin/sh\n" + "#" * SCRIPT_BYTES_MAX)


def test_labels_tell_components_apart() -> None:
    text = "#!/bin/sh\n#SBATCH -J train\ntrue\n"
    job = read_scripts([("alpha", "a", text), ("beta", "a", text), ("beta", "a", text)])
    labels = [component.label for component in job.spec.components]
    assert labels == ["train-alpha", "train-beta-1", "train-beta-2"]
    alone = read_scripts([("alpha", "a", text)]).spec.components[0]
    assert alone.label == "train"


@given(st.text(st.characters(exclude_characters="\0\r", codec="utf-8")))
def test_whatever_a_script_says_reaches_the_interpreter_unchanged(body: str) -> None:
    text = f"#!/bin/sh\n#SBATCH -n 2\ntrue\n{body}"
    job = read_scripts([("alpha", "a.sh", text)])
    read = read_job(write_job(job.spec))
    assert read.spec.components[0].arguments == ("-c", text)
    assert read.spec.components == job.spec.components


@pytest.mark.parametrize(
    ("directives", "memory_mb"),
    [
        ("#SBATCH --mem=4G", 4096),
        ("#SBATCH --mem=500", 500),
        ("#SBATCH --mem=0", None),
        ("#SBATCH -n 8 -N 2 --mem-per-cpu=1G", 4096),
        ("#SBATCH --mem-per-cpu=1500K", 2),
        ("#SBATCH -n 8 --mem-per-cpu=1G", 1024),
    ],
)
def test_memory_is_that_of_the_process_on_a_node(directives: str, memory_mb: int | None) -> None:
    component, warnings = read_script(f"#!/bin/sh\n{directives}\ntrue\n")
    assert (component.memory_min_mb, warnings) == (memory_mb, [])


def test_a_file_name_with_a_pattern_is_left_out_with_a_warning() -> None:
    component, (warning,) = read_script("#!/bin/sh\n#SBATCH --output=train-%j.out\ntrue\n")
    assert component.stdout is None
    assert "line 2, column 9: train-%j.out is left out: %j is not replaced here" in warning


@pytest.mark.parametrize(
    ("directives", "gpus", "kind"),
    [
        (("--gpus=4",), 4, None),
        (("-G a100:2",), 2, "a100"),
        (("--gres=gpu:2",), 2, None),
        (("--gres=gpu", "-N 3"), 3, None),
        (("-N 2", "--gres=gpu:v100:4"), 8, "v100"),
        (("--gpus-per-node=2", "--nodes=4"), 8, None),
        (("--gpus-per-task=a:1", "-n 6"), 6, "a"),
        (("--gres=none",), None, None),
        (("-n 4",), None, None),
    ],
)
def test_gpus_of_slurm_directives(
    directives: tuple[str, ...], gpus: int | None, kind: str | None
) -> None:
    component = slurm(*directives)
    assert (component.gpus, component.gpu_type) == (gpus, kind)


def test_other_resources_of_slurm_directives() -> None:
    component = slurm(
        "-C ib&rome --licenses=matlab:2,ansys",
        "--qos long --exclusive",
        "-N 2 --ntasks-per-node=4 --cpus-per-task=3",
        "--reservation=course --network=ib -m block:cyclic",
    )
    assert component.constraint == "ib&rome"
    assert component.licenses == (("matlab", 2), ("ansys", 1))
    assert (component.qos, component.is_exclusive) == ("long", True)
    assert (component.processors, component.hosts) == (24, 2)
    assert (component.tasks_per_host, component.cpus_per_task) == (4, 3)
    assert component.reservation == "course"
    assert component.native == "--network=ib --distribution=block:cyclic"


def test_processors_and_memory_for_each_gpu() -> None:
    component = slurm("--gpus=4", "--cpus-per-gpu=6", "--mem-per-gpu=8G", "-N 2")
    assert (component.processors, component.cpus_per_task) == (24, 12)
    assert component.memory_min_mb == 2 * 8192


@pytest.mark.parametrize(
    ("site", "memory_mb", "native"),
    [
        (None, None, "-l h_vmem=2.5G -pe mpi 4"),
        ("Grid Engine", None, "-l h_vmem=2.5G -pe mpi 4"),
        ("Slurm", 10240, None),
        ("", 10240, None),
    ],
)
def test_memory_of_grid_engine_is_passed_on_as_it_is(
    site: str | None, memory_mb: int | None, native: str | None
) -> None:
    text = "#!/bin/sh\n#$ -pe mpi 4 -l h_vmem=2.5G\ntrue\n"
    component, warnings = read_script(text, site=ScriptSite(name="x", system=site))
    assert (component.memory_min_mb, component.native, warnings) == (memory_mb, native, [])


def test_resources_of_grid_engine_directives() -> None:
    component = grid_engine("-l gpu=2,ib -l exclusive=TRUE", "-l scratch=10G,h_rt=60 -l rome=true")
    assert (component.gpus, component.is_exclusive, component.wall_time_s) == (2, True, 60)
    assert (component.constraint, component.native) == ("ib&rome", "-l scratch=10G")


def test_scripts_of_one_name_name_the_job() -> None:
    train, other = ("#!/bin/sh\n#SBATCH -J train\n", "#!/bin/sh\n#SBATCH -J other\n")
    both = [("alpha", "a", train), ("beta", "b", train)]
    assert read_scripts(both).spec.name == "train"
    assert read_scripts([*both, ("beta", "c", other)]).spec.name == ""
    assert read_scripts([("alpha", "a", "#!/bin/sh\ntrue\n")]).spec.name == ""


@pytest.mark.parametrize(
    ("lines", "processors", "hosts", "gpus", "memory_mb"),
    [
        ("#PBS -l select=2:ncpus=8:mem=4gb:ngpus=1", 16, 2, 2, 4096),
        ("#PBS -l nodes=2:ppn=4", 8, 2, None, None),
        ("#PBS -l select=1:ncpus=8:mpiprocs=4:ib=True", 8, None, None, None),
        ("#PBS -l ncpus=8,mem=500mb", 8, None, None, 500),
        ("#OAR -l /nodes=2/core=8,walltime=0:30", 16, 2, None, None),
        ("#OAR -l {cluster='a'}/host=1/gpu=2", 2, 1, 2, None),
        ("#OAR -l core=4", 4, None, None, None),
    ],
)
def test_sizes_of_pbs_and_oar(
    lines: str, processors: int, hosts: int | None, gpus: int | None, memory_mb: int | None
) -> None:
    component, _ = read_script(f"#!/bin/sh\n{lines}\ntrue\n")
    assert (component.processors, component.hosts, component.gpus) == (processors, hosts, gpus)
    assert component.memory_min_mb == memory_mb


def test_what_pbs_and_oar_directives_say_of_a_component() -> None:
    text = "#!/bin/sh\n#PBS -N wave -j oe -o out.txt -q long -A sea\n#PBS -l walltime=1:30:00\n"
    component, warnings = read_script(text)
    assert (component.label, component.queue, component.project) == ("wave", "long", "sea")
    assert (component.stdout, component.stderr, component.wall_time_s) == (*["out.txt"] * 2, 5400)
    text = "#!/bin/sh\ntrue\n#OAR -n wave\n#OAR -p cluster='a' AND mem > 4\n#OAR -d /data\n"
    component, more = read_script(text)
    assert (component.label, component.directory) == ("wave", "/data")
    assert component.native == """-p 'cluster='"'"'a'"'"' AND mem > 4'"""
    assert warnings + more == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#PBS -l select=1:ncpus=2+1:ncpus=4", "expected one kind of chunk"),
        ("#PBS -l select=1:model=ivy", r"model=ivy \(expected ncpus"),
        ("#PBS -J 1-4", "a component is one program"),
        ("#PBS --frobnicate", "unknown option"),
        ("#OAR -l nodes=2", "expected core=N or gpu=N"),
        ("#OAR -l nodes=1/core=ALL", "expected one request"),
        ("#OAR --array 5", "a component is one program"),
        ("#OAR -t besteffort", "could start a job twice"),
        ("#OAR -q", "expected one value"),
        ("#OAR --frobnicate", "is not an option"),
    ],
)
def test_what_pbs_and_oar_directives_cannot_say_is_refused(line: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        read_script(f"#!/bin/sh\n{line}\ntrue\n")
    assert caught.value.position is not None
    assert caught.value.position.line == 2


SLURM_SITE = ScriptSite(name="alpha", system="Slurm")
CELL = ScriptSite(name="gamma", system="Grid Engine")
EMULATED = ScriptSite(name="emu", system="")


def test_the_directives_of_its_site_count() -> None:
    text = "#!/bin/sh\n#SBATCH -n 4\n#$ -pe mpi 8\ntrue\n"
    sizes = [read_script(text, site=site)[0].processors for site in (SLURM_SITE, CELL, EMULATED)]
    assert sizes == [4, 8, 4]
    assert read_script(text, site=CELL)[1] == [
        "line 2, column 1: #SBATCH is left out: the #$ lines count"
    ]


def test_what_only_a_site_of_its_own_kind_can_do_goes_nowhere_else() -> None:
    text = "#!/bin/sh\n#SBATCH -n 4 --mem-per-cpu=1G --nice=3\n{}\ntrue\n"
    plain, needed = text.format(""), text.format("#SBATCH --network=ib")
    assert read_script(plain, site=SLURM_SITE)[0].native == "--nice=3 --mem-per-cpu=1G"
    here, warnings = read_script(plain, site=CELL)
    assert (here.native, here.memory_min_mb) == (None, 4096)
    assert warnings == [
        "line 2, column 31: --nice is left out: it is for Slurm, and gamma has Grid Engine"
    ]
    with pytest.raises(SpecError, match="--network: it is for Slurm, and gamma has Grid Engine"):
        read_script(needed, site=CELL)
    last = read_script(needed, site=EMULATED)[1][-1]
    assert last.endswith("--network is left out: it is for Slurm, and emu has no batch system")
    closed = ScriptSite(name="alpha", system="Slurm", takes_native=False)
    here, warnings = read_script(plain, site=closed)
    assert (here.native, here.memory_min_mb) == (None, 4096)
    assert "--nice is left out: alpha passes nothing on (lrm.native of its agent)" in warnings[0]
    assert "--mem-per-cpu only tell the size: alpha passes nothing on" in warnings[1]
    with pytest.raises(SpecError, match="--network: alpha passes nothing on"):
        read_script(needed, site=closed)


def test_variables_of_another_batch_system_are_set_or_told() -> None:
    text = (
        "#!/bin/sh\n#SBATCH -n 4\ncd $SLURM_SUBMIT_DIR\nrun -np ${SLURM_NTASKS} -j $SLURM_JOB_ID\n"
        "echo ${SLURM_NNODES:-1}  # $SLURM_NPROCS\n"
    )
    component, warnings = read_script(text, site=CELL)
    assert component.environment == (("SLURM_NTASKS", "4"),)
    assert [warning.partition(" at ")[0].partition(" by ")[0] for warning in warnings] == [
        "line 3, column 5: SLURM_SUBMIT_DIR is not set",
        "line 4, column 11: SLURM_NTASKS is not set",
        "line 4, column 29: SLURM_JOB_ID is not set",
    ]
    assert "KOALA_CLAIM" in warnings[2]
    component, warnings = read_script(text, site=SLURM_SITE)
    assert component.environment == ()
    (warning,) = warnings
    assert "SLURM_SUBMIT_DIR is a folder of the site's agent at alpha" in warning


@pytest.mark.parametrize(
    ("first", "executable", "arguments"),
    [
        ("#!/usr/bin/env -S bash -l", "/usr/bin/env", ("bash", "-l", "-c")),
        ("#!/usr/bin/env A=1 python3.11", "/usr/bin/env", ("A=1", "python3.11", "-c")),
        ("#!/bin/bash --login", "/bin/bash", ("--login", "-c")),
        ("#!/usr/bin/perl", "/usr/bin/perl", ("-e",)),
    ],
)
def test_interpreters_that_take_a_program_as_an_argument(
    first: str, executable: str, arguments: tuple[str, ...]
) -> None:
    component, _ = read_script(f"{first}\n")
    assert (component.executable, component.arguments[:-1]) == (executable, arguments)


def test_a_script_without_a_first_line_may_name_its_shell() -> None:
    component, _ = read_script("#$ -S /bin/bash\n#$ -pe mpi 2\ntrue\n")
    assert (component.executable, component.arguments[0]) == ("/bin/bash", "-c")


def test_parts_of_a_heterogeneous_job_are_components_with_steps_of_their_own() -> None:
    body = (
        "module load x\nsrun -l ./a : \\\n  ./b '#1 : 2' > out &\nsrun --het-group=1 ./c\nsrun d\n"
    )
    job = read_scripts([("alpha,beta", "a.sh", PARTS + body)])
    first, second = job.spec.components
    assert [(one.site, one.processors, one.wall_time_s) for one in (first, second)] == [
        ("alpha", 2, 300),
        ("beta", 4, 300),
    ]
    start = PARTS + "module load x\n"
    assert first.arguments[-1] == f"{start}srun -l ./a > out &\ntrue\nsrun d\n"
    assert second.arguments[-1] == f"{start}srun ./b '#1 : 2' > out &\nsrun ./c\ntrue\n"
    assert [warning.partition(": part 1")[0] for warning in job.warnings] == [
        "a.sh: line 6, column 5"
    ]
    with pytest.raises(SpecError, match="found 3 sites for a script, expected 2 or one"):
        read_scripts([("alpha,beta,gamma", "a.sh", PARTS)])


def test_a_part_without_a_step_runs_nothing_and_the_script_runs_once() -> None:
    (first, second), (warning,) = read_parts(PARTS + "hostname\n")
    assert first.arguments[-1] == PARTS + "hostname\n"
    assert (second.executable, second.arguments, second.processors) == ("/bin/true", (), 4)
    assert warning == "part 1 runs nothing, and ends at once: no srun names its group"


def test_a_part_has_the_options_of_earlier_ones_unless_it_gives_others() -> None:
    lines = "#SBATCH -N2 -p fast -t 5 -A physics\n#SBATCH PackJob\n#SBATCH -t 9 -c 4\n"
    components, _ = read_parts(f"#!/bin/sh\n{lines}true\n")
    assert [(one.queue, one.project, one.wall_time_s, one.hosts) for one in components] == [
        ("fast", "physics", 300, 2),
        (None, "physics", 540, None),
    ]
