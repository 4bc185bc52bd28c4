"""One call of a function of another package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from koala.common.runtime.foreign.alarms import PATIENCE, TimeIsUpError, Watch, interruptible
from koala.errors import InvalidAnswerError

LOAD_LIMIT_S = 30.0
"""Time limit for importing a function."""
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
    watch = PATIENCE if is_simulated else Watch(limit_s)
    fault: FaultError | None = None
    passing: BaseException | None = None
    answer: Any = None
    watch.begin()
    try:
        try:
            answer = next(_ask(function, arguments, read))
        except TimeIsUpError:
            pass
        except BaseException as error:  # noqa: BLE001 - foreign code raises what it likes
            if watch.passes(error):
                passing = error
            else:
                fault = _described(error)
    except TimeIsUpError:
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


@interruptible
def _ask(
    function: Callable[..., Any], arguments: tuple[Any, ...], read: Callable[[Any], Any]
) -> Iterator[Any]:
    """Yield the answer. A generator has exceptions of its own: one that was interrupted while it
    handled another leaves none behind as the context of later ones."""
    yield read(function(*arguments))


@interruptible
def _described(error: BaseException) -> FaultError:
    """Describe an error of foreign code, whose text may raise an error itself."""
    try:
        place = _place(error.__traceback__)
        text = " ".join(str.split(str.__str__(str(error))))[:_TEXT_MAX]
        if isinstance(error, InvalidAnswerError):
            return FaultError(text, is_of_answer=True)
        name = str.__str__(type(error).__name__)
        return FaultError(f"{name}: {text}" if text else name, place)
    except TimeIsUpError:
        raise
    except BaseException:  # noqa: BLE001 - as above
        return FaultError("an error whose text cannot be read")


def _place(trace: TracebackType | None) -> str:
    """Return file and line of the innermost frame of the foreign code."""
    last = None
    while trace is not None:
        if trace.tb_frame.f_globals.get("__package__") != __package__:
            last = trace
        trace = trace.tb_next
    if last is None:
        return ""
    return f"{Path(last.tb_frame.f_code.co_filename).name}, line {last.tb_lineno}"
