"""From RSL to a job: what each attribute becomes, and what is refused with which words."""

from __future__ import annotations

import re

import pytest

from koala.cli.jobs.submit import TEXT_CHARACTERS_MAX
from koala.core.model.job_spec import (
    ComponentSpec,
    Deadline,
    Hint,
    InputFile,
    InputMode,
    JobSpec,
    JobType,
    Notify,
    StartType,
)
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import FileName, JobId, Priority, SiteName, TcpPath
from koala.errors import SpecError
from koala.job_descriptions import read_job
from koala.job_descriptions.fields import ARGUMENTS_BYTES_MAX, ENVIRONMENT_BYTES_MAX
from koala.job_descriptions.job_reader import JOB_CHARACTERS_MAX, JOB_TOKENS_MAX
from tests.tidy.sources import ROOT


def component(relations: str) -> ComponentSpec:
    """The component that these relations describe."""
    return read_job(f"&(executable=/bin/x){relations}").spec.components[0]


def test_every_attribute_of_a_component_reaches_its_field() -> None:
    assert component(
        "(arguments=a 'b c' \"\")(directory=/home)(environment=(A b)(_c1 'd e'))(stdin=in)"
        "(stdout=out)(stderr=err)(count=8)(hostCount=2)(jobType=single)(resourceManagerContact=delft)(label=left)"
        "(subjobStartType=loose-barrier)(maxWallTime=10)(maxCpuTime=5)(minMemory=100)(maxMemory=200)"
        "(queue=short)(project=p1)(outputFile=a.dat logs/b)"
    ) == ComponentSpec(
        executable="/bin/x",
        arguments=("a", "b c", ""),
        directory="/home",
        environment=(("A", "b"), ("_c1", "d e")),
        stdin="in",
        stdout="out",
        stderr="err",
        processors=8,
        hosts=2,
        job_type=JobType.SINGLE,
        site=SiteName("delft"),
        label="left",
        start_type=StartType.LOOSE,
        wall_time_s=600.0,
        cpu_time_s=300.0,
        memory_min_mb=100,
        memory_max_mb=200,
        queue="short",
        project="p1",
        output_files=("a.dat", "logs/b"),
    )


def test_every_attribute_of_the_job_reaches_its_field() -> None:
    spec = read_job(
        "+(priority=high)(inputFile=(data/one 10K))(inputMode=chunk)(deadline='+90')(hint=io 0.25)"
        "(maxHold=0.5)(quorum=1)(redundancy=2)(retry=3)(rerun=no)(progress=SQ)"
        "(connect=(all 29500)(1 0 80))"
        "(&(executable=a))(&(executable=b))"
    ).spec
    assert spec == JobSpec(
        components=(ComponentSpec(executable="a"), ComponentSpec(executable="b")),
        priority=Priority.HIGH,
        input_file=InputFile(name=FileName("data/one"), size_bytes=10240),
        input_mode=InputMode.CHUNK,
        deadline=Deadline(after_s=5400.0),
        hint=Hint(kind="io", deviation=0.25),
        max_hold_s=30.0,
        quorum=1,
        redundancy=2,
        retries=3,
        rerun=False,
        progress="sq",
        connect=(
            TcpPath(source="all", target="all", port=29500),
            TcpPath(source="1", target="0", port=80),
        ),
    )


def test_names_and_enumerated_values_have_no_case_and_names_no_underscores() -> None:
    assert component("(MAX_wall_TIME=2)(Job_Type=SINGLE)(subjob_start_type=No-Barrier)") == (
        ComponentSpec(
            executable="/bin/x",
            wall_time_s=120.0,
            job_type=JobType.SINGLE,
            start_type=StartType.NONE,
        )
    )


def test_variables_are_evaluated_before_the_job_is_read() -> None:
    text = (
        "+(rsl_substitution=(D /d))(&(rslSubstitution=(N 4))(executable=$(D)/$(P x))(count=$(N)))"
    )
    spec = read_job(text, {"P": "prog"}).spec
    assert spec.components == (ComponentSpec(executable="/d/prog", processors=4),)


def test_a_job_wide_attribute_may_stand_in_any_component_and_again_with_the_same_value() -> None:
    spec = read_job("+(&(executable=a))(&(executable=b)(priority=high))(priority=HIGH)").spec
    assert spec.priority is Priority.HIGH


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("f", InputFile(name=FileName("f"))),
        ("(f 0)", InputFile(name=FileName("f"), size_bytes=0)),
        ("(f 7k)", InputFile(name=FileName("f"), size_bytes=7 * 1024)),
        ("(f 5M)", InputFile(name=FileName("f"), size_bytes=5 * 1024**2)),
        ("(f 2G)", InputFile(name=FileName("f"), size_bytes=2 * 1024**3)),
    ],
)
def test_an_input_file_may_have_a_size_with_a_unit(text: str, file: InputFile) -> None:
    assert read_job(f"&(executable=a)(inputFile={text})").spec.input_file == file


def test_a_component_may_have_input_files_of_its_own() -> None:
    spec = read_job("+(inputFile=x)(&(executable=a)(inputs=a (b 1K)))(&(executable=a))").spec
    assert [(file.name, file.size_bytes) for file in spec.inputs_of(0)] == [
        ("x", None), ("a", None), ("b", 1024)
    ]  # fmt: skip
    assert spec.input_names(0) == ("x", "a", "b")
    assert spec.input_names(1) == "x"
    assert [file.name for file in spec.all_inputs] == ["x", "a", "b"]


@pytest.mark.parametrize(
    ("text", "deadline"),
    [
        ("1970-01-02T00:00:00Z", Deadline(at=86400.0)),
        ("1970-01-02T01:00:00.25+01:00", Deadline(at=86400.25)),
        ('"+15"', Deadline(after_s=900.0)),
        ('"+0.1"', Deadline(after_s=6.0)),
    ],
)
def test_a_deadline_is_an_instant_or_minutes_from_submission(text: str, deadline: Deadline) -> None:
    assert read_job(f"&(executable=a)(deadline={text})").spec.deadline == deadline


@pytest.mark.parametrize("text", ["cpu", "CPU", "(io 1)", "io 0", "(cpu 0.5)"])
def test_a_hint_has_a_kind_and_perhaps_a_deviation(text: str) -> None:
    hint = read_job(f"&(executable=a)(hint={text})").spec.hint
    assert hint is not None
    assert hint.kind in ("cpu", "io")
    assert (hint.deviation is None) == (len(text) == 3)


# Warnings


@pytest.mark.parametrize(
    "contact",
    [
        "delft:2119",
        "https://delft",
        "delft:2119/jobmanager-sge",
        "delft/jobmanager",
        "delft::/O=x/CN=y",
    ],
)
def test_only_the_host_part_of_a_contact_counts(contact: str) -> None:
    reading = read_job(f'&(executable=a)(resourceManagerContact="{contact}")')
    assert reading.spec.components[0].site == "delft"
    assert "host part" in reading.warnings[0]


def test_an_ignored_attribute_is_warned_of_once_with_its_place() -> None:
    reading = read_job("+(&(executable=a)\n(save_state=yes))(&(executable=b)(saveState=yes))")
    assert reading.warnings == (
        "line 2, column 2: save_state is ignored: the daemon's journal keeps every job",
    )


def test_files_and_links_of_the_first_koala_are_read() -> None:
    text = '&(executable=a)(stagein="/home/ann/in")(filesize-stagein="/home/ann/in=10G")'
    reading = read_job(f'{text}(bandwidth="subjob 1:30G" "subjob 2:10G")(jobtype=mpi)')
    assert reading.spec.components[0].stage == ("/home/ann/in",)
    assert ["is ignored" in warning for warning in reading.warnings] == [True, True]


def test_retries_of_a_job_that_may_not_start_again_are_warned_of() -> None:
    reading = read_job("&(executable=a)(rerun=no)(retry=1)")
    assert reading.warnings == (
        "line 1, column 27: retry means nothing with rerun=no: a program that failed has started",
    )
    assert read_job("&(executable=a)(rerun=no)(retry=0)").warnings == ()


def test_max_time_is_the_wall_time_limit_where_no_other_is_given() -> None:
    assert component("(maxTime=3)").wall_time_s == 180.0
    reading = read_job("&(executable=a)(maxTime=3)(maxWallTime=5)")
    assert reading.spec.components[0].wall_time_s == 300.0
    assert "maxTime is ignored" in reading.warnings[0]


# Refusals: (relations of a component, or a text that begins with &, + or |; words of the error)

REFUSALS = [
    ("a=b", "begins with & or +"),
    ("|(executable=a)", "no alternatives"),
    ("+(+(&(executable=a)))", "inside +"),
    ("+(|(&(executable=a)))", "inside +"),
    ("&(&(executable=a))", "inside &"),
    ("+(priority=high)", "found 0 components, expected 1 to 1000"),
    ("+" + "(&(executable=a))" * 1001, "found 1001 components, expected 1 to 1000"),
    ("&(count=4)", "no executable"),
    ("+(&(executable=a))(&(count=4))", "no executable"),
    ("+(count=4)(&(executable=a))", "count belongs to a component"),
    ("(count<4)", "only with =, found <"),
    ("(count!=4)", "only with =, found !="),
    ("(cuont=4)", "unknown attribute 'cuont'; did you mean count?"),
    ("(qqqqqq=4)", "unknown attribute 'qqqqqq'"),
    ("(count=4)(Count=4)", "count is given twice"),
    ("(r_slsubstitution=(A a))", "written rsl_substitution"),
    ("(count=0)", "count: found '0', expected a whole number from 1 to 1000000"),
    ("(count=-4)", "found '-4'"),
    ("(count=1e3)", "found '1e3'"),
    ("(count=4.0)", "found '4.0'"),
    ("(count=٤)", "found '٤'"),
    ('(count=" 4")', "found ' 4'"),
    ("(count=1000001)", "found '1000001', expected a whole number from 1 to 1000000"),
    (f"(count={'9' * 5000})", "expected a whole number from 1 to 1000000"),
    ("(count=4 4)", "found a second value '4'"),
    ("(count=(4))", "found a sequence"),
    (
        "+(&(executable=a)(count=600000))(&(executable=b)(count=600000))",
        "1200000 processors together, expected at most 1000000",
    ),
    ("(hostCount=2)", "hostCount is 2, expected at most count, 1"),
    ("(minMemory=2)(maxMemory=1)", "minMemory is 2, expected at most maxMemory, 1"),
    ("(maxWallTime=0)", "maxWallTime: found '0'"),
    ("(maxWallTime=1.5)", "maxWallTime: found '1.5'"),
    ("(maxWallTime=99999999)", "to 5256000"),
    ("(jobType=Condor)", "condor is not there yet"),
    ("(jobType=both)", "found 'both', expected single or multiple or mpi"),
    ("(subjobStartType=none)", "expected strict-barrier or loose-barrier or no-barrier"),
    ("(executable=b)", "given twice"),
    ("(directory='')", "directory: found '', expected a path"),
    ("(stdout=gsiftp://host/x)", "URLs are not fetched"),
    ("(stdin=a b)", "found a second value 'b'"),
    ("(environment=A b)", "(NAME value) pairs"),
    ("(environment=(A))", "(NAME value) pairs"),
    ("(environment=(A b c))", "(NAME value) pairs"),
    ("(environment=(A (b)))", "(NAME value) pairs"),
    ("(environment=(1A b))", "environment: found '1A'"),
    ("(environment=('' b))", "environment: found ''"),
    ("(environment=(A=B b))", "found `=`"),
    ("(environment=(KOALA_JOB b))", "reserved"),
    ("(environment=(A b)(A b))", "each name once"),
    (f"(environment=(A {'x' * ENVIRONMENT_BYTES_MAX}))", "expected at most 131072"),
    (f"(arguments={'x ' * (ARGUMENTS_BYTES_MAX // 2 + 1)})", "expected at most 131072"),
    ("(resourceManagerContact='')", "the name of a site"),
    ("(resourceManagerContact=a@b)", "the name of a site"),
    ("(label='')", "label: found ''"),
    (
        "+(&(executable=a)(label=x))(&(executable=a)(label=x))",
        "label: found 'x', expected each label once",
    ),
    ("(queue=-f)", "no leading `-`"),
    ("(queue='a b')", "no white space"),
    ("(outputFile=../x)", "without `..`"),
    ("(outputFile=a/../x)", "without `..`"),
    ("(outputFile=/etc/passwd)", "a relative path"),
    ("(outputFile='')", "a relative path"),
    ("(outputFile=.)", "a relative path"),
    ("(outputFile=a/)", "a relative path"),
    ("(outputFile='a\nb')", "control characters"),
    ("(outputFile=a a)", "each file once"),
    ("(file_stage_in=(a b))", "file_stage_in is refused: name the file with inputFile"),
    ('(stageout="/home/ann/out")', "stageout is refused: name the files with outputFile"),
    ("(directory=$(HOME)/run)", "'HOME' is not defined; GRAM defined it at the site"),
    ("(file_stage_out=(a b))", "name the files with outputFile"),
    ("(restart=x)", "restart is refused"),
    ("(priority=medium)", "priority: found 'medium', expected high or low"),
    ("(priority=high)(priority=low)", "has another value at line 1"),
    ("+(&(executable=a)(retry=1))(&(executable=a)(retry=2))", "has another value at line 1"),
    ("(inputFile=a b/c '~ann/a')", "found two files that a program sees as 'a', expected one"),
    ("(inputFile=a b)(inputMode=chunk)", "inputMode=chunk divides one input file, found 2"),
    (
        "+(&(executable=a)(inputFile=a))(&(executable=a)(inputFile=b))",
        "column 19; inputs are files of one component",
    ),
    ("+(inputs=a)(&(executable=a))", "inputs belongs to a component"),
    ("(inputs=a '~ann/a')", "inputs: found two files that a program sees as 'a'"),
    ("(inputs=a)(inputFile=b '~ann/a')", "inputs of component 0: found two files"),
    ("(inputs=a)(inputFile=b)(inputMode=chunk)", "inputMode=chunk divides the file of inputFile"),
    ("(inputFile=(a b c))", "expected NAME or (NAME SIZE)"),
    ("(inputFile=(a -1))", "inputFile: found '-1'"),
    ("(inputFile=(a 1T))", "inputFile: found '1T'"),
    ("(inputFile=(a 9223372036854775807G))", "inputFile: found '9223372036854775807G'"),
    ("(inputFile='')", "inputFile: found ''"),
    ("(inputFile=../a)", "without `..`"),
    ("(inputMode=half)", "expected whole or chunk"),
    ("(deadline=2030-01-01T00:00:00)", "the zone is missing"),
    ("(deadline=9999-12-31T23:59:59-23:59)", "in the years 1970 to 9998"),
    ("(deadline=0001-01-01T00:00:00+23:59)", "in the years 1970 to 9998"),
    ("(deadline=tomorrow)", "deadline: found 'tomorrow'"),
    ('(deadline="+-5")', "deadline: found '+-5'"),
    ('(deadline="+1e3")', "deadline: found '+1e3'"),
    ("(hint=gpu)", "expected cpu or io"),
    ("(hint=cpu 2)", "from 0 to 1"),
    ("(hint=cpu nan)", "from 0 to 1"),
    ("(hint=cpu 0 0)", "another form"),
    ("(maxHold=-1)", "maxHold: found '-1'"),
    ("(maxHold=inf)", "maxHold: found 'inf'"),
    ("(quorum=0)", "quorum: found '0'"),
    ("(redundancy=9)", "redundancy: found '9', expected a whole number from 1 to 8"),
    ("(quorum=2)", "quorum is 2, expected at most the number of components, 1"),
    ("(retry=-1)", "retry: found '-1'"),
    ("(rerun=maybe)", "expected yes or no"),
    ("(connect=all)", "expected (all PORT) or (FROM TO PORT)"),
    ("(connect=(0 80))", "expected (all PORT) or (FROM TO PORT)"),
    ("(connect=(all 0))", "connect: found '0', expected a port from 1 to 65535"),
    ("(connect=(all http))", "expected a port from 1 to 65535"),
    ("(connect=(all b 80))", "connect: found 'b', expected all or a component: 0"),
    ("(connect=(0 0 80))", "a path from '0' to itself"),
    (
        "+(connect=(all x 80))(&(executable=a))(&(executable=b)(label=x)"
        "(subjobStartType=no-barrier))",
        "component 'x' has no barrier",
    ),
    ("(arguments=$(MISSING))", "'MISSING' is not defined"),
]


@pytest.mark.parametrize(("text", "words"), REFUSALS)
def test_what_is_no_job_is_refused_in_clear_words(text: str, words: str) -> None:
    is_whole = text[0] in "&+|a"
    with pytest.raises(SpecError) as caught:
        read_job(text if is_whole else f"&(executable=/bin/x){text}")
    assert words in caught.value.message
    assert caught.value.position is not None


def test_a_description_of_more_than_a_million_characters_is_refused_at_once() -> None:
    short = "&(executable=a)"
    long = short + " " * (JOB_CHARACTERS_MAX - len(short))
    assert read_job(long).spec == read_job(short).spec
    with pytest.raises(SpecError, match=r"has 1000001 characters \(expected at most 1000000"):
        read_job(long + " ")
    assert TEXT_CHARACTERS_MAX == JOB_CHARACTERS_MAX, "what koala submit sends is what is taken"
    for page in ("rsl.md", "api.md"):
        text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        assert re.search("1,000,000 characters (of text|a description)", text)


def test_a_description_of_more_words_than_anybody_needs_is_refused_before_it_is_read() -> None:
    relations = JOB_TOKENS_MAX // 5 - 2
    text = (
        "&(executable=a)" + "(x-a=b)" * relations
    )  # and the `&` and the end: three short of the limit
    assert read_job(text).spec == read_job("&(executable=a)").spec
    with pytest.raises(SpecError, match="has more than 200000 names, values and signs"):
        read_job(text + "(x-a=b)(")  # what is wrong after it is not looked at
    page = " ".join((ROOT / "docs" / "rsl.md").read_text(encoding="utf-8").split())
    assert "200,000 names, values and signs" in page


J12 = Predecessor(job=JobId("j12"))
ANY13 = Predecessor(job=JobId("j13"), ended=Ended.ANY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("&(executable=x)(after=j12 j13:any)", (J12, ANY13)),
        ("executable: x\nafter: j12", (J12,)),
        ("executable: x\nafter: [j12:ok, {job: j13, ended: any}]", (J12, ANY13)),
        ("executable: x\nafter: {ended: any, job: j13}", (ANY13,)),
    ],
)
def test_a_job_names_those_that_must_have_ended(
    text: str, expected: tuple[Predecessor, ...]
) -> None:
    assert read_job(text).spec.after == expected


@pytest.mark.parametrize("wrong", ["12", "j12:well", "j12 j12:any", "(j12 any)", '""', "j0x"])
def test_what_is_no_job_to_wait_for_is_refused_with_what_is(wrong: str) -> None:
    with pytest.raises(SpecError, match=r"expected (a job's id such as j12|each job once)"):
        read_job(f"&(executable=x)(after={wrong})")


@pytest.mark.parametrize(
    "text",
    [
        "&(executable=x)(notify=(topic t)(command /bin/told 'a b'))",
        "executable: x\nnotify: {topic: t, command: [/bin/told, a b]}",
    ],
)
def test_a_job_names_who_learns_of_its_end(text: str) -> None:
    assert read_job(text).spec.notify == Notify(topic="t", command=("/bin/told", "a b"))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("ann", "found another form"),
        ("(topic a/b)", "a name without blanks, #"),
        ("(topic a)(topic b)", "found another form"),
        ("(command told)", "the absolute path of a program"),
        ("(command)", "found another form"),
        ("(command (a))", "found a sequence"),
    ],
)
def test_what_cannot_be_notified_is_refused(wrong: str, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        read_job(f"&(executable=x)(notify={wrong})")


@pytest.mark.parametrize(
    "text",
    [
        "&(executable=x)(ports=DB:5432 (WEB 80))",
        "executable: x\nports: {DB: 5432, WEB: 80}",
        '{"executable": "x", "ports": ["DB:5432", "WEB:80"]}',
    ],
)
def test_a_component_names_its_ports(text: str) -> None:
    assert read_job(text).spec.components[0].ports == (("DB", 5432), ("WEB", 80))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("(ports=DB)", "expected NAME:NUMBER"),
        ("(ports=db:80)", "a name of capital letters"),
        ("(ports=DB:65536)", "a port from 1 to 65535"),
        ("(ports=(DB 0))", "found 'DB:0', .* a port from 1 to 65535"),
        ("(ports=DB:80 DB:81)", "each name and each port once"),
        ("(ports=DB:80 WEB:80)", "each name and each port once"),
        ("(ports=(A B C))", "found another form"),
        ("(ports=DB:80)(subjobStartType=no-barrier)", "expected another startType"),
        ("(ports=DB:80)(totalCount=4)(malleable=yes)", "expected malleable=no"),
    ],
)
def test_what_is_no_port_is_refused(wrong: str, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        read_job(f"&(executable=x){wrong}")
