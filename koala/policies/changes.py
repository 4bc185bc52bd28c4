"""Changes of a what-if, as `KEY=VALUE`: a slot's policy, or a parameter by our name or the paper's
symbol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from koala.common.runtime.option_values import did_you_mean
from koala.core.model.parameters import NAMES, SYMBOLS, Parameters
from koala.errors import ConfigError
from koala.policies import BUILT_IN, named

_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes against the recorded run."""

    policies: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, object] = field(default_factory=dict)


def parse_changes(words: Iterable[str]) -> Changes:
    """Parse the changes. Raises ConfigError that lists what is allowed."""
    changes = Changes()
    text_of: dict[str, str] = {}
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not value:
            raise ConfigError(f"--with {word} (expected KEY=VALUE, as in placement=WF)")
        name = SYMBOLS.get(key, key)
        if text_of.setdefault(name, value) != value:
            raise ConfigError(f"--with {word}: {name} is {text_of[name]} already")
        if name in BUILT_IN:
            changes.policies[name] = _policy(word, name, value)
        elif name in NAMES:
            changes.parameters[name] = _value(word, name, value)
        else:
            raise ConfigError(f"--with {word}: {key} {_unknown(key)}")
    require_valid(Parameters(), changes.parameters, "the default")
    return changes


def parse_alternatives(words: Iterable[str]) -> dict[str, Changes]:
    """Parse changes of which one may have several values, as in tickets=none,dodge: the changes
    with each of them, by its words. Raises ConfigError."""
    words = [*words]
    several = [word for word in words if "," in word.partition("=")[2]]
    if len(several) > 1:
        raise ConfigError(f"--with {several[1]}: {several[0]} has several values already")
    if not several:
        return {" ".join(words): parse_changes(words)}
    key, _, values = several[0].partition("=")
    others = [word for word in words if word is not several[0]]
    each = [f"{key}={value}" for value in values.split(",")]
    return {word: parse_changes([*others, word]) for word in dict.fromkeys(each)}


def require_valid(parameters: Parameters, changed: Mapping[str, object], whose: str) -> None:
    """Check parameters with changed ones among them; `whose` are the others. Raises ConfigError."""
    try:
        replace(parameters, **changed)  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"--with: {error} (with {whose} values of the others)") from error


def _policy(word: str, slot: str, name: str) -> str:
    try:
        named(slot, name)
    except ConfigError as error:
        raise ConfigError(f"--with {word}: {error}") from error
    return name


def _value(word: str, name: str, text: str) -> object:
    """Convert the text to the parameter's type."""
    default: object = getattr(Parameters(), name)
    match default:
        case bool():
            if text.lower() in _TRUTHS:
                return _TRUTHS[text.lower()]
            expected = "true or false"
        case int():
            if text.removeprefix("-").isdecimal():
                return int(text)
            expected = "a whole number"
        case float():
            try:
                return float(text)
            except ValueError:
                expected = "a number, or inf"
        case _:
            return text
    raise ConfigError(f"--with {word} (expected {expected})")


def _unknown(key: str) -> str:
    keys = (*BUILT_IN, *SYMBOLS, *NAMES)
    return (
        f"is unknown (expected a policy: {', '.join(BUILT_IN)}; a symbol: {', '.join(SYMBOLS)}; or"
        f" a parameter: {', '.join(NAMES)}{did_you_mean(key, keys)})"
    )
