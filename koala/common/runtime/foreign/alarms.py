"""Alarms of the operating system that interrupt foreign code, also while it sleeps or catches every
exception.

They work in the main thread only, and interrupt neither C code that does not return nor a function
that turns the alarm off.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

from koala.common.runtime import clock
from koala.errors import EndlessPolicyError

SIMULATED_LIMIT_S = 60.0
"""Time limit of an answer in simulated time: far above what any machine needs for one."""
_REPEAT_S = 0.1
"""Interval between interrupts of a function that catches the first one."""
_STEPS = 64
"""Delays of the next interrupt of a function that catches several, in microseconds from 1 on."""
Caller = TypeVar("Caller", bound=Callable[..., Any])
_INTERRUPTIBLE: list[CodeType] = []


class TimeIsUpError(BaseException):
    """Time limit exceeded. Not an Exception, so that `except Exception` lets it pass."""


def interruptible(caller: Caller) -> Caller:
    """Declare a function of this package that calls foreign code, which alarms may interrupt."""
    _INTERRUPTIBLE.append(caller.__code__)
    return caller


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
    the code of this package itself."""
    while frame is not None and frame.f_globals.get("__package__") != __package__:
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
        raise TimeIsUpError

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
            raise TimeIsUpError
        return self._trace


class _Patience(_Alarm):
    """Watch over the calls of simulated time: one alarm for very many, so that they stay cheap. It
    rings between half of the limit and the whole of it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set_until_s = 0.0
        self._alarm_before: Any = signal.SIG_DFL

    def begin(self) -> None:
        """Set the alarm again if it may ring too soon."""
        now_s = clock.now()
        if now_s < self._is_set_until_s or not _is_main_thread():
            return
        before = _set_handler(signal.SIGALRM, self._ring)
        if before != self._ring:
            self._alarm_before = before
        signal.setitimer(signal.ITIMER_REAL, SIMULATED_LIMIT_S)
        self._is_set_until_s = now_s + SIMULATED_LIMIT_S / 2

    def end(self) -> tuple[int, str]:
        """Return how often the alarm rang; it is off then."""
        rings, self.rings = self.rings, 0
        if rings:
            sys.settrace(None)
            self.rest()
        return rings, ""

    def rest(self) -> None:
        """Turn the alarm off at the end of a run."""
        if self._is_set_until_s and _is_main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)
            _set_handler(signal.SIGALRM, self._alarm_before)
        self.forget()

    def forget(self) -> None:
        """Set the alarm at the next call: a fork has none of its parent's."""
        self._is_set_until_s = 0.0

    def passes(self, error: BaseException) -> bool:
        """Return True for errors that end the run."""
        return isinstance(error, KeyboardInterrupt | EndlessPolicyError)


PATIENCE = _Patience()
os.register_at_fork(after_in_child=PATIENCE.forget)


class Watch(_Alarm):
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
            present = _handler_of(number)
            if present is not handler and handler is not None:  # None: of no Python code
                _set_handler(number, handler)
                if present != self._interrupt:
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
