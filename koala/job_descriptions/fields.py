"""Typed readers of a relation's values: strings, whole numbers, times, paths, instants.

Each takes a `AttributeText` (an evaluated relation with its text) and returns the value, or raises
SpecError at the offending value, naming it and what is allowed. Numbers are strict: decimal digits,
no sign, no exponent, inside stated bounds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

import msgspec

from koala.common.protocol.names import visible_name
from koala.core.model.job_spec import Deadline, Hint, InputFile
from koala.core.model.values import ALL, FileName, Instant, Seconds, SiteName, TcpPath
from koala.errors import SpecError
from koala.job_descriptions.tree import AnyNode, Literal, Relation, Sequence, Source

ENVIRONMENT_BYTES_MAX = 128 * 1024
ARGUMENTS_BYTES_MAX = 128 * 1024
PATH_BYTES_MAX = 4096
WORD_CHARACTERS_MAX = 256
OUTPUT_FILES_MAX = 1000
INPUT_FILES_MAX = 1000
SITES_MAX = 8
"""Most sites in whose queues a component waits."""
MINUTES_MAX = 5_256_000  # ten years
YEAR_MIN, YEAR_MAX = 1970, 9998  # so that every zone can write it
PORT_MAX = 65_535
PORTS_MAX = 64
"""Most ports of a component that have a name."""
AMOUNT_MAX = 10**15
FILE_BYTES_MAX = 2**63 - 1
SIZE_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}

DURATIONS = "1h30m or 00:30:00"
MEMORY_MB_MAX = 10**9

SHOWN_CHARACTERS_MAX = 60
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}
_UNITS = re.compile(
    r"(?=[0-9])(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-5][0-9]):([0-5][0-9])")
_MEMORY = re.compile(r"([0-9]{1,10})([MGT]?)(?:i?B)?", re.IGNORECASE)
_MEMORY_UNITS_MB = {"": 1, "M": 1, "G": 1024, "T": 1024**2}
_WHOLE = re.compile(r"[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,19}(\.[0-9]{1,400})?")
_SIZE = re.compile(r"([0-9]{1,19})([KMG]?)", re.IGNORECASE)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PORT_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_WORD = re.compile(r"[^\s\-]\S*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")

T = TypeVar("T")


class AttributeText(msgspec.Struct, frozen=True, kw_only=True):
    """A relation as it stands in an evaluated text."""

    relation: Relation
    source: Source

    def error(self, message: str, node: AnyNode | None = None) -> SpecError:
        """Return an error at a value, or at the attribute."""
        at = self.relation if node is None else node
        return self.source.error(f"{self.relation.attribute}: {message}", at.offset)

    def wrong(self, node: Literal, expected: str) -> SpecError:
        """Return the error that names a value and what is allowed."""
        return self.error(f"found {shown(node.text)}, expected {expected}", node)


def shown(text: str) -> str:
    """Format a value for an error message, cut when long."""
    limit = SHOWN_CHARACTERS_MAX
    return repr(text if len(text) <= limit else text[:limit] + "...")


def strings(attribute: AttributeText) -> tuple[Literal, ...]:
    """Read one or more literals."""
    literals = []
    for value in attribute.relation.values:
        if not isinstance(value, Literal):
            raise attribute.error("found a sequence, expected a string", value)
        literals.append(value)
    return tuple(literals)


def string(attribute: AttributeText) -> Literal:
    """Read exactly one literal."""
    values = attribute.relation.values
    if len(values) == 1 and isinstance(values[0], Literal):
        return values[0]
    second = strings(attribute)[1]
    message = f"found a second value {shown(second.text)}, expected one (a value with blanks needs"
    raise attribute.error(f"{message} quotes)", second)


def whole(attribute: AttributeText, *, low: int, high: int) -> int:
    """Read a whole number within bounds."""
    literal = string(attribute)
    value = int(literal.text) if _WHOLE.fullmatch(literal.text) else low - 1
    if not low <= value <= high:
        raise attribute.wrong(literal, f"a whole number from {low} to {high}")
    return value


def choice(attribute: AttributeText, choices: Mapping[str, T]) -> T:
    """Read one of a few words, in any case."""
    literal = string(attribute)
    value = choices.get(literal.text.lower())
    if value is None:
        raise attribute.wrong(literal, " or ".join(choices))
    return value


def is_yes(attribute: AttributeText) -> bool:
    """Read `yes` or `no` (`true` and `false` mean the same)."""
    literal = string(attribute)
    value = _YES_OR_NO.get(literal.text.lower())
    if value is None:
        raise attribute.wrong(literal, "yes or no")
    return value


def yes_or_no(value: bool) -> str:  # noqa: FBT001 - a writer of one value
    """Format a choice as `yes` or `no`."""
    return "yes" if value else "no"


def time_limit_s(attribute: AttributeText) -> Seconds:
    """Read a time limit: whole minutes, as GRAM writes times, or a duration; in seconds."""
    literal = string(attribute)
    if _WHOLE.fullmatch(literal.text) and 1 <= int(literal.text) <= MINUTES_MAX:
        return 60.0 * int(literal.text)
    seconds = duration_s(literal.text)
    if seconds is None or not 1 <= seconds <= 60 * MINUTES_MAX:
        expected = f"whole minutes from 1 to {MINUTES_MAX}, or a duration such as {DURATIONS}"
        raise attribute.wrong(literal, expected)
    return float(seconds)


def minutes_s(attribute: AttributeText, literal: Literal, text: str) -> Seconds:
    """Read minutes with decimals (0.5 is thirty seconds), or a duration; in seconds."""
    if _DECIMAL.fullmatch(text) and Fraction(text) <= MINUTES_MAX:
        return float(Fraction(text) * 60)
    seconds = duration_s(text)
    if seconds is None or seconds > 60 * MINUTES_MAX:
        expected = f"minutes from 0 to {MINUTES_MAX}, such as 15 or 0.5, or a duration such as"
        raise attribute.wrong(literal, f"{expected} {DURATIONS}")
    return float(seconds)


def duration_s(text: str) -> int | None:
    """Parse a duration such as 1d12h, 1h30m, 45s, 00:30:00 or 2-12:00:00; None for any other
    text."""
    match = _UNITS.fullmatch(text) if text else None
    if match is None:
        match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def minutes_text(seconds: Seconds) -> str:
    """Format seconds as the decimal number of minutes that reads back as exactly these seconds."""
    exact = Fraction(seconds) / 60
    for digits in range(60):
        text = f"{Decimal(round(exact * 10**digits)).scaleb(-digits):f}"
        if float(Fraction(text) * 60) == seconds:
            return text
    raise SpecError(f"{seconds} seconds cannot be written in minutes")


def memory_mb(attribute: AttributeText) -> int:
    """Read memory: whole MB, or a number with M, G or T (1024 MB, 1024² MB); in MB."""
    literal = string(attribute)
    match = _MEMORY.fullmatch(literal.text)
    size_mb = int(match[1]) * _MEMORY_UNITS_MB[match[2].upper()] if match else 0
    if not 1 <= size_mb <= MEMORY_MB_MAX:
        expected = f"whole MB from 1 to {MEMORY_MB_MAX}, or a size such as 512M or 4G"
        raise attribute.wrong(literal, expected)
    return size_mb


def time_limit_text(seconds: Seconds) -> str:
    """Format a time limit as the text that reads back as these seconds."""
    if seconds % 1:
        raise SpecError(f"a time limit of {seconds} s is not a whole number of seconds")
    return f"{int(seconds)}s" if seconds % 60 else str(int(seconds // 60))


def amount(attribute: AttributeText) -> float:
    """Read a number above 0, with decimals or without."""
    literal = string(attribute)
    if not _DECIMAL.fullmatch(literal.text) or not 0 < Fraction(literal.text) <= AMOUNT_MAX:
        raise attribute.wrong(literal, f"a number above 0, at most {AMOUNT_MAX}")
    return float(literal.text)


def amount_text(value: float) -> str:
    """Format an amount as the decimal number that reads back as this value."""
    return f"{Decimal(repr(float(value))):f}"


def word(attribute: AttributeText) -> str:
    """Read a name without white space that does not look like an option of a command."""
    literal = string(attribute)
    if not _is_word(literal.text):
        limit = WORD_CHARACTERS_MAX
        expected = f"a name of 1 to {limit} printable characters, no white space, no leading `-`"
        raise attribute.wrong(literal, expected)
    return literal.text


def _is_word(text: str) -> bool:
    is_short = len(text) <= WORD_CHARACTERS_MAX
    return is_short and bool(_WORD.fullmatch(text)) and text.isprintable()


def label(attribute: AttributeText) -> str:
    """Read a name for people; blanks are allowed inside."""
    literal = string(attribute)
    text = literal.text
    if not text.strip() or len(text) > WORD_CHARACTERS_MAX or not text.isprintable():
        raise attribute.wrong(literal, f"1 to {WORD_CHARACTERS_MAX} printable characters")
    return text


def path(attribute: AttributeText) -> str:
    """Read a file or directory at the site; URLs that GASS would fetch are refused."""
    literal = string(attribute)
    if not literal.text or len(literal.text.encode()) > PATH_BYTES_MAX:
        raise attribute.wrong(literal, f"a path of 1 to {PATH_BYTES_MAX} bytes")
    if _URL.match(literal.text):
        expected = "a path at the site: URLs are not fetched (inputFile and outputFile move files)"
        raise attribute.wrong(literal, expected)
    return literal.text


def arguments(attribute: AttributeText) -> tuple[str, ...]:
    """Read the argument vector."""
    texts = tuple(literal.text for literal in strings(attribute))
    size_bytes = sum(len(text.encode()) + 1 for text in texts)
    if size_bytes > ARGUMENTS_BYTES_MAX:
        raise attribute.error(f"found {size_bytes} bytes, expected at most {ARGUMENTS_BYTES_MAX}")
    return texts


def environment(attribute: AttributeText) -> tuple[tuple[str, str], ...]:
    """Read (NAME value) pairs; names are those of a shell and each is given once."""
    pairs: dict[str, str] = {}
    size_bytes = 0
    for value in attribute.relation.values:
        match value:
            case Sequence(values=(Literal() as name, Literal(text=text))):
                pass
            case _:
                raise attribute.error("found another form, expected (NAME value) pairs", value)
        if not _VARIABLE_NAME.fullmatch(name.text):
            raise attribute.wrong(name, "a name of letters, digits and _ that begins with no digit")
        if name.text.startswith("KOALA_"):
            raise attribute.wrong(name, "another name: those with KOALA_ are reserved")
        if name.text in pairs:
            raise attribute.wrong(name, "each name once")
        pairs[name.text] = text
        size_bytes += len(name.text) + len(text.encode()) + 2
    if size_bytes > ENVIRONMENT_BYTES_MAX:
        raise attribute.error(f"found {size_bytes} bytes, expected at most {ENVIRONMENT_BYTES_MAX}")
    return tuple(pairs.items())


def ports(attribute: AttributeText) -> tuple[tuple[str, int], ...]:
    """Read named ports, NAME:NUMBER or (NAME NUMBER), each name and number once."""
    found: dict[str, int] = {}
    expected = "NAME:NUMBER, a name of capital letters, digits and _, and a port from 1 to 65535"
    for value in attribute.relation.values:
        match value:
            case Sequence(values=(Literal(text=name, offset=at), Literal(text=number))):
                literal = Literal(text=f"{name}:{number}", offset=at)
            case Literal() as literal:
                pass
            case _:
                raise attribute.error(f"found another form, expected {expected}", value)
        name, _colon, number = literal.text.partition(":")
        is_port = re.fullmatch(r"[1-9][0-9]{0,4}", number) and int(number) <= PORT_MAX
        if not _PORT_NAME.fullmatch(name) or not is_port:
            raise attribute.wrong(literal, expected)
        if name in found or int(number) in found.values():
            raise attribute.wrong(literal, "each name and each port once in a component")
        found[name] = int(number)
    if len(found) > PORTS_MAX:
        raise attribute.error(f"found {len(found)} ports, expected at most {PORTS_MAX}")
    return tuple(found.items())


def ports_text(value: tuple[tuple[str, int], ...]) -> list[str]:
    """Format named ports as the values that read back as these."""
    return [f"{name}:{number}" for name, number in value]


def stage(attribute: AttributeText) -> tuple[str, ...]:
    """Read `yes`, or paths of the user's machine, each once; `no` stages nothing."""
    texts = [literal.text for literal in strings(attribute)]
    if len(texts) == 1 and texts[0].lower() in _YES_OR_NO:
        return ("yes",) if is_yes(attribute) else ()
    for literal in strings(attribute):
        if not literal.text or not literal.text.isprintable() or texts.count(literal.text) > 1:
            raise attribute.wrong(literal, "yes, or paths of your machine, each once")
        if len(literal.text.encode()) > PATH_BYTES_MAX or len(texts) > OUTPUT_FILES_MAX:
            raise attribute.error(
                f"found more, expected at most {OUTPUT_FILES_MAX} paths of {PATH_BYTES_MAX} bytes"
            )
    return tuple(texts)


def sites(attribute: AttributeText) -> tuple[SiteName, ...]:
    """Read names of sites, each once."""
    found: dict[SiteName, None] = {}
    for literal in strings(attribute):
        name = SiteName(literal.text)
        if not _is_word(literal.text) or name in found:
            raise attribute.wrong(literal, "the name of a site, each once")
        found[name] = None
    if not 1 <= len(found) <= SITES_MAX:
        raise attribute.error(f"found {len(found)} sites, 1 to {SITES_MAX} are allowed")
    return tuple(found)


def output_patterns(attribute: AttributeText) -> tuple[str, ...]:
    """Read patterns of files inside the component's working directory, each once."""
    return _relative_paths(attribute, may_be_folder=True)


def output_files(attribute: AttributeText) -> tuple[str, ...]:
    """Read relative paths that stay inside the component's working directory, each once."""
    return _relative_paths(attribute, may_be_folder=False)


def _relative_paths(attribute: AttributeText, *, may_be_folder: bool) -> tuple[str, ...]:
    literals = strings(attribute)
    if len(literals) > OUTPUT_FILES_MAX:
        raise attribute.error(f"found {len(literals)} files, expected at most {OUTPUT_FILES_MAX}")
    seen: dict[str, None] = {}
    for literal in literals:
        text = literal.text
        parts = (text[:-1] if may_be_folder and text.endswith("/") else text).split("/")
        is_inside = not text.startswith("/") and ".." not in parts and parts[-1] not in ("", ".")
        is_short = len(text.encode()) <= PATH_BYTES_MAX
        if not is_inside or not is_short or not text.isprintable():
            what = "pattern" if may_be_folder else "path"
            expected = f"a relative {what} of a file, without `..` and control characters"
            raise attribute.wrong(literal, expected)
        if text in seen:
            raise attribute.wrong(literal, "each file once")
        seen[text] = None
    return tuple(seen)


def input_files(attribute: AttributeText) -> tuple[InputFile, ...]:
    """Read names, each NAME or (NAME SIZE); programs see each under another name."""
    files = tuple(_input_file(attribute, value) for value in attribute.relation.values)
    if problem := inputs_problem(files):
        raise attribute.error(problem)
    return files


def inputs_problem(files: tuple[InputFile, ...]) -> str:
    """Return what is wrong with the input files of a component; empty if nothing is."""
    if len(files) > INPUT_FILES_MAX:
        return (
            f"found {len(files)} files, expected at most {INPUT_FILES_MAX}; an archive of them"
            " is one file"
        )
    if twice := seen_twice(files):
        return f"found two files that a program sees as {shown(twice)}, expected one"
    return ""


def input_files_text(files: tuple[InputFile, ...]) -> list[str | tuple[str, ...]]:
    """Format input files as the values that read back as these."""
    return [
        file.name if file.size_bytes is None else (file.name, str(file.size_bytes))
        for file in files
    ]


def seen_twice(files: Iterable[InputFile]) -> str:
    """Return a name under which a program would see two of these files; empty if there is none."""
    names = [visible_name(file.name) for file in files]
    return next((name for name, uses in Counter(names).items() if uses > 1), "")


def _input_file(attribute: AttributeText, value: AnyNode) -> InputFile:
    """Read NAME, or (NAME SIZE) where the size is bytes or has a suffix K, M or G."""
    match value:
        case Literal() as name:
            size = None
        case Sequence(values=(Literal() as name, Literal() as size)):
            pass
        case _:
            raise attribute.error("found another form, expected NAME or (NAME SIZE)")
    text = name.text
    if not text.isprintable() or not text.strip() or len(text.encode()) > PATH_BYTES_MAX:
        raise attribute.wrong(name, f"a logical file name of 1 to {PATH_BYTES_MAX} printable bytes")
    if ".." in text.split("/"):
        raise attribute.wrong(name, "a logical file name without `..`")
    size_bytes = None if size is None else _size_bytes(attribute, size)
    return InputFile(name=FileName(text), size_bytes=size_bytes)


def _size_bytes(attribute: AttributeText, literal: Literal) -> int:
    match = _SIZE.fullmatch(literal.text)
    size_bytes = int(match[1]) * SIZE_UNITS[match[2].upper()] if match else -1
    if not 0 <= size_bytes <= FILE_BYTES_MAX:
        raise attribute.wrong(
            literal, f"bytes from 0 to {FILE_BYTES_MAX}, such as 4096, 10K, 5M or 2G"
        )
    return size_bytes


def deadline(attribute: AttributeText) -> Deadline:
    """Read ISO 8601 with a zone, or "+MINUTES" from submission."""
    literal = string(attribute)
    if literal.text.startswith("+"):
        return Deadline(after_s=minutes_s(attribute, literal, literal.text[1:]))
    expected = 'an instant with zone such as 2030-01-31T12:00:00+01:00, or minutes such as "+90"'
    try:
        instant = datetime.fromisoformat(literal.text)
    except ValueError:
        raise attribute.wrong(literal, expected) from None
    if instant.tzinfo is None:
        raise attribute.wrong(literal, f"{expected}: the zone is missing")
    if not YEAR_MIN <= instant.year <= YEAR_MAX:
        raise attribute.wrong(literal, f"{expected}, in the years {YEAR_MIN} to {YEAR_MAX}")
    return Deadline(at=instant_at(instant))


def instant_at(instant: datetime) -> Instant:
    """Convert to epoch seconds exactly, so that a written instant reads back the same."""
    since = instant - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return microseconds / 10**6


def connect(attribute: AttributeText) -> tuple[TcpPath, ...]:
    """Read (all PORT) and (FROM TO PORT), any number of them; the components they name are checked
    later."""
    paths: dict[TcpPath, None] = {}
    for value in attribute.relation.values:
        match value:
            case Sequence(values=(Literal(text="all"), Literal() as port)):
                path = TcpPath(source=ALL, target=ALL, port=_port(attribute, port))
            case Sequence(values=(Literal() as source, Literal() as target, Literal() as port)):
                path = TcpPath(source=source.text, target=target.text, port=_port(attribute, port))
            case _:
                raise attribute.error(
                    "found another form, expected (all PORT) or (FROM TO PORT)", value
                )
        paths[path] = None
    return tuple(paths)


def _port(attribute: AttributeText, literal: Literal) -> int:
    if not _WHOLE.fullmatch(literal.text) or not 1 <= int(literal.text) <= PORT_MAX:
        raise attribute.wrong(literal, f"a port from 1 to {PORT_MAX}")
    return int(literal.text)


def hint(attribute: AttributeText) -> Hint:
    """Read cpu or io, alone or with the acceptable deviation: `io 0.25` or `(io 0.25)`."""
    values = attribute.relation.values
    if len(values) == 1 and isinstance(values[0], Sequence):
        values = values[0].values
    literals = [value for value in values if isinstance(value, Literal)]
    if len(literals) < len(values) or len(literals) > 2:
        raise attribute.error("found another form, expected cpu or io and a deviation from 0 to 1")
    kind, deviation = literals[0], literals[1] if len(literals) == 2 else None
    if kind.text.lower() not in ("cpu", "io"):
        raise attribute.wrong(kind, "cpu or io")
    if deviation is None:
        return Hint(kind=kind.text.lower())
    if not _DECIMAL.fullmatch(deviation.text) or Fraction(deviation.text) > 1:
        raise attribute.wrong(deviation, "an acceptable deviation from 0 to 1, such as 0.25")
    return Hint(kind=kind.text.lower(), deviation=float(deviation.text))
