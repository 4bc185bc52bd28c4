"""Call functions of other packages: limit their time, read their answers, fall back.

A function of another package may raise anything, never return, or answer nonsense. `Guarded` calls
one until it misbehaves; from then on its form's fallback answers. In live use a function without an
answer in time is replaced, too. In simulated time it ends the run with an error, because otherwise
the speed of the machine would decide between two results.

The time limit is an alarm of the operating system. It interrupts Python code, also code that sleeps
or catches every exception. It works in the main thread only, and interrupts neither C code that
does not return nor a function that turns the alarm off.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from koala.errors import EndlessPolicyError, InvalidAnswerError
from koala.runtime import clock

LIVE_LIMIT_S = 0.5
"""Time limit of an answer in live use; the process is blocked meanwhile."""
SIMULATED_LIMIT_S = 60.0
"""Time limit of an answer in simulated time: far above what any machine needs for one."""
LOAD_LIMIT_S = 30.0
"""Time limit for importing a function."""
_REPEAT_S = 0.1
"""Interval between interrupts of a function that catches the first one."""
_STEPS = 64
"""Delays of the next interrupt of a function that catches several, in microseconds from 1 on."""
_TEXT_MAX = 300


class FaultError(Exception):
    """A function of another package gave no valid answer: it raised an error in the line `place`,
    or gave an invalid answer (`is_of_answer`), or none in time (`is_timeout`)."""

    def __init__(
        self, reason: str, place: str = "", *, is_of_answer: bool = False, is_timeout: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place
        self.is_of_answer = is_of_answer
        self.is_timeout = is_timeout

    def __str__(self) -> str:
        return f"{self.reason}, in {self.place}" if self.place else self.reason


class ReplacedPolicyWarning(UserWarning):
    """A simulation went on with the default in place of a policy that misbehaved."""


# --- guards ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Form of a function of other packages: what it is asked, what it answers, what replaces it.

    - `arguments`, `answer`: what a function is given and returns, in words.
    - `pose`: makes of a question the arguments, which the function may change without harm, and the
      reader of its answer. The reader returns plain values or raises InvalidAnswerError.
    - `fallback`: answers the question in place of the function; `by` is its name.
    """

    arguments: tuple[str, ...]
    answer: str
    pose: Callable[..., tuple[tuple[Any, ...], Callable[[Any], Any]]]
    fallback: Callable[..., Any]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A policy that misbehaved, the default that goes on in its place, and the reason."""

    slot: str
    policy: str
    by: str
    fault: FaultError

    def __str__(self) -> str:
        return f"{self.slot} = {self.policy}{_REPLACED}{self.by}: {self.fault}"


_REPLACED = ": replaced by "


def is_replacement(note: str) -> bool:
    """Return True for a note on a run that tells of a replacement."""
    return _REPLACED in note


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """Conduct towards functions of other packages: the time limit of an answer, and who hears of a
    replacement. In simulated time a function without an answer ends the run."""

    limit_s: float
    is_simulated: bool = False
    report: Callable[[Replacement], None]


_run: ContextVar[list[str] | None] = ContextVar("koala_replaced_policies", default=None)


@contextmanager
def noting_replacements() -> Iterator[list[str]]:
    """Yield the list that gets a text for each policy that is replaced in this simulated run."""
    noted: list[str] = []
    token = _run.set(noted)
    try:
        yield noted
    finally:
        _run.reset(token)


def _note(replacement: Replacement) -> None:
    noted = _run.get()
    if noted is not None:
        noted.append(str(replacement))
    told = globals().setdefault("__warningregistry__", {})  # where Python keeps what it has told
    warnings.warn_explicit(str(replacement), ReplacedPolicyWarning, "koala", 1, registry=told)


SIMULATED = Conduct(limit_s=SIMULATED_LIMIT_S, is_simulated=True, report=_note)


class Guard:
    """Guard of one policy, which may consist of several functions; `trouble` is the reason once it
    is replaced."""

    __slots__ = ("conduct", "name", "slot", "trouble")

    def __init__(self, *, slot: str, name: str, conduct: Conduct) -> None:
        self.slot = slot
        self.name = name
        self.conduct = conduct
        self.trouble = ""

    def replace(self, by: str, fault: FaultError) -> None:
        """Replace the policy for good, and report it. Raises EndlessPolicyError in simulated time
        if it gave no answer."""
        if fault.is_timeout and self.conduct.is_simulated:
            raise EndlessPolicyError(f"{self.slot} = {self.name}: {fault}: the run has no result")
        self.trouble = fault.reason
        self.conduct.report(Replacement(slot=self.slot, policy=self.name, by=by, fault=fault))


class Guarded:
    """A function of another package until its guard replaces it, then the fallback of its form."""

    __slots__ = ("form", "function", "guard")

    def __init__(self, function: Callable[..., Any], form: Form, guard: Guard) -> None:
        self.function = function
        self.form = form
        self.guard = guard

    def __call__(self, *question: Any) -> Any:  # noqa: ANN401 - the form's
        """Return the function's answer, or that of the fallback once it is replaced."""
        if not self.guard.trouble:
            arguments, read = self.form.pose(*question)
            try:
                conduct = self.guard.conduct
                return answer_of(
                    self.function,
                    arguments,
                    read,
                    limit_s=conduct.limit_s,
                    is_simulated=conduct.is_simulated,
                )
            except FaultError as fault:
                self.guard.replace(self.form.by, fault)
        return self.form.fallback(*question)


# --- one call ---


def answer_of(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    read: Callable[[Any], Any],
    *,
    limit_s: float,
    is_simulated: bool = False,
) -> Any:  # noqa: ANN401
    """Call a function and read its answer. Raises FaultError with the reason if there is none.

    An interrupt by the user (Ctrl-C) passes; a KeyboardInterrupt that the function raises passes in
    simulated time only.
    """
    watch = _PATIENCE if is_simulated else _Watch(limit_s)
    fault: FaultError | None = None
    passing: BaseException | None = None
    answer: Any = None
    watch.begin()
    try:
        try:
            answer = next(_ask(function, arguments, read))
        except _TimeIsUpError:
            pass
        except BaseException as error:  # noqa: BLE001 - foreign code raises what it likes
            if watch.passes(error):
                passing = error
            else:
                fault = _described(error)
    except _TimeIsUpError:
        pass  # while the error was described
    finally:
        rings, tampered = watch.end()
    if passing is not None:
        raise passing
    if rings:
        fault = FaultError(f"no answer in {limit_s:g} s", is_timeout=True)
    elif fault is None and tampered:
        fault = FaultError(f"changed {tampered} of the process")
    if fault is not None:
        raise fault
    return answer


class _TimeIsUpError(BaseException):
    """Time limit exceeded. Not an Exception, so that `except Exception` lets it pass."""


def _ask(
    function: Callable[..., Any], arguments: tuple[Any, ...], read: Callable[[Any], Any]
) -> Iterator[Any]:
    """Yield the answer. A generator has exceptions of its own: one that was interrupted while it
    handled another leaves none behind as the context of later ones."""
    yield read(function(*arguments))


def _described(error: BaseException) -> FaultError:
    """Describe an error of foreign code, whose text may raise an error itself."""
    try:
        place = _place(error.__traceback__)
        text = " ".join(str.split(str.__str__(str(error))))[:_TEXT_MAX]
        if isinstance(error, InvalidAnswerError):
            return FaultError(text, is_of_answer=True)
        name = str.__str__(type(error).__name__)
        return FaultError(f"{name}: {text}" if text else name, place)
    except _TimeIsUpError:
        raise
    except BaseException:  # noqa: BLE001 - as above
        return FaultError("an error whose text cannot be read")


def _place(trace: TracebackType | None) -> str:
    """Return file and line of the innermost frame of the foreign code."""
    last = None
    while trace is not None:
        if trace.tb_frame.f_globals is not globals():
            last = trace
        trace = trace.tb_next
    if last is None:
        return ""
    return f"{Path(last.tb_frame.f_code.co_filename).name}, line {last.tb_lineno}"


_INTERRUPTIBLE = (_ask.__code__, _described.__code__)
_SIGNALS = tuple(
    getattr(signal, name)
    for name in (
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGTERM",
        "SIGCHLD",
        "SIGPIPE",
        "SIGUSR1",
        "SIGUSR2",
    )
)
_TIMERS = (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_handler_of: Callable[[int], Any] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
_set_handler: Callable[[int, Any], Any] = getattr(signal.signal, "__wrapped__", signal.signal)
"""The functions of the interpreter: those of the module `signal` search an enumeration for each
handler, which takes longer than all else here."""


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_foreign(frame: FrameType | None) -> bool:
    """Return True if a frame is of foreign code that is being called, and may be interrupted: not
    the code of the guard itself."""
    while frame is not None and frame.f_globals is not globals():
        frame = frame.f_back
    return frame is not None and frame.f_code in _INTERRUPTIBLE


class _Alarm:
    """Interrupts foreign code when the alarm rings."""

    def __init__(self) -> None:
        self.rings = 0

    def _ring(self, _signal: int, frame: FrameType | None) -> None:
        if not _is_foreign(frame):
            return
        self.rings += 1
        if self.rings == 1:
            signal.setitimer(signal.ITIMER_REAL, _REPEAT_S, _REPEAT_S)
        else:  # the function has caught the last one
            self._raise_in_its_handler(frame)
        raise _TimeIsUpError

    def _raise_in_its_handler(self, frame: FrameType | None) -> None:
        """Trace the function, to raise again where it catches the next one: an error that is raised
        in an exception handler leaves the loop around it."""
        while frame is not None and frame.f_code not in _INTERRUPTIBLE:
            frame.f_trace = self._trace
            frame = frame.f_back
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401
        if event in ("call", "line") and _is_foreign(frame):
            # Handlers may be nested: the next alarm comes soon, each time a little later.
            soon_s = (1 + self.rings % _STEPS) * 1e-6
            signal.setitimer(signal.ITIMER_REAL, soon_s, _REPEAT_S)
            raise _TimeIsUpError
        return self._trace


class _Patience(_Alarm):
    """Watch over the calls of simulated time: one alarm for very many, so that they stay cheap. It
    rings between half of the limit and the whole of it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set_until_s = 0.0

    def begin(self) -> None:
        """Set the alarm again if it may ring too soon."""
        now_s = clock.now()
        if now_s < self._is_set_until_s or not _is_main_thread():
            return
        _set_handler(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, SIMULATED_LIMIT_S)
        self._is_set_until_s = now_s + SIMULATED_LIMIT_S / 2

    def end(self) -> tuple[int, str]:
        """Return how often the alarm rang; it is off then."""
        rings, self.rings = self.rings, 0
        if rings:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.forget()
        return rings, ""

    def forget(self) -> None:
        """Set the alarm at the next call: a fork has none of its parent's."""
        self._is_set_until_s = 0.0

    def passes(self, error: BaseException) -> bool:
        """Return True for errors that end the run."""
        return isinstance(error, KeyboardInterrupt | EndlessPolicyError)


_PATIENCE = _Patience()
os.register_at_fork(after_in_child=_PATIENCE.forget)


class _Watch(_Alarm):
    """Watch over one live call: its time, and what it does to the signals of the process.

    Calls may be nested: the outer call's time goes on during an inner one, but for the time of an
    inner one that ran out.
    """

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self._is_interrupted = False
        self._limit_s = limit_s
        self._is_on = _is_main_thread()

    def begin(self) -> None:
        """Note the signals of the process, and set the alarm."""
        if not self._is_on:
            return
        self._handlers = [_handler_of(number) for number in _SIGNALS]
        self._timers = [signal.getitimer(which)[1] for which in _TIMERS]
        self._trace_before = sys.gettrace()
        self._alarm_before = _set_handler(signal.SIGALRM, self._ring)
        if _handler_of(signal.SIGINT) is signal.default_int_handler:
            _set_handler(signal.SIGINT, self._interrupt)
        self._began_s = clock.now()
        self._outer = signal.setitimer(signal.ITIMER_REAL, self._limit_s, _REPEAT_S)

    def end(self) -> tuple[int, str]:
        """Set the alarm and the signals as they were; return how often the alarm rang, and what the
        call has changed of them."""
        if not self._is_on:
            return 0, ""
        _, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        tampered = "" if interval else "the alarm"
        if self.rings > 1:
            sys.settrace(self._trace_before)
        if _set_handler(signal.SIGALRM, self._alarm_before) != self._ring:
            tampered = "the handler of SIGALRM"
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            found = _handler_of(number)
            if found is not handler and handler is not None:  # None: of no Python code
                _set_handler(number, handler)
                if found != self._interrupt:
                    tampered = f"the handler of {number.name}"
        for which, before in zip(_TIMERS, self._timers, strict=True):
            if signal.getitimer(which)[1] != before or (not before and signal.getitimer(which)[0]):
                signal.setitimer(which, before, before)
                tampered = "a timer"
        rest_s, repeat_s = self._outer
        if rest_s:  # of a call around this one
            took_s = 0.0 if self.rings else clock.now() - self._began_s
            signal.setitimer(signal.ITIMER_REAL, max(rest_s - took_s, 1e-3), repeat_s)
        return self.rings, tampered

    def passes(self, _error: BaseException) -> bool:
        """Return True if the user has interrupted the process."""
        return self._is_interrupted

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        self._is_interrupted = True
        raise KeyboardInterrupt
