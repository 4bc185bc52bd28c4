"""State that the keys of `koala top` change: view, chosen job, filter, order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

PAGE = 10
FILTER_CHARACTERS_MAX = 60


class View(StrEnum):
    """Content of the screen below its head."""

    GRID = "grid"
    JOB = "job"
    WHY = "why"
    LOGS = "logs"
    HELP = "help"


class Order(StrEnum):
    """Order of the jobs."""

    NEWEST = "newest"
    PHASE = "phase"
    USER = "user"
    SIZE = "size"
    WAIT = "wait"


class Request(StrEnum):
    """Request of a key to the loop."""

    NOTHING = "nothing"
    QUIT = "quit"
    CANCEL = "cancel"


class Prompt(StrEnum):
    """A question in the last line."""

    NONE = "none"
    FILTER = "filter"
    CANCEL = "cancel"


KEYS = (
    ("up down", "choose a job (also k j, page up, page down, home, end)"),
    ("enter", "the job: its course over the sites, its barrier, its components"),
    ("w", "why it waits, or how it ended"),
    ("l", "what its programs write, live"),
    ("c", "cancel it, after a question"),
    ("/", "filter by words of job, name, user, site, program, phase"),
    ("s", "next order: newest, phase, user, size, wait"),
    ("a", "all jobs, or only those under way"),
    ("esc q", "back; in the list q quits"),
    ("?", "this help"),
)
"""Keys and their meanings."""


@dataclass(slots=True, kw_only=True)
class TopState:
    """State of the screen. `chosen` is a job's id, and empty before there is one."""

    view: View = View.GRID
    before: View = View.GRID
    chosen: str = ""
    words: str = ""
    order: Order = Order.NEWEST
    has_ended: bool = True
    scroll: int = 0
    prompt: Prompt = Prompt.NONE
    message: str = ""
    _words_before: str = field(default="", repr=False)

    def press(self, key: str, jobs: Sequence[str], *, is_over: bool = False) -> Request:
        """Take a key. `jobs` are the ids in the list, in order; `is_over` is about the chosen one.

        Returns what the loop has to do."""
        self.message = ""
        if self.chosen not in jobs and self.view is View.GRID:
            self.chosen = jobs[0] if jobs else ""
        match self.prompt:
            case Prompt.FILTER:
                self._type(key)
                return Request.NOTHING
            case Prompt.CANCEL:
                self.prompt = Prompt.NONE
                if key in ("y", "Y"):
                    return Request.CANCEL
                self.message = f"{self.chosen} was not cancelled"
                return Request.NOTHING
            case Prompt.NONE:
                return self._command(key, jobs, is_over=is_over)

    def _type(self, key: str) -> None:
        """Change the filter; enter keeps it, escape restores the one before."""
        match key:
            case "enter":
                self.prompt = Prompt.NONE
            case "escape":
                self.prompt, self.words = Prompt.NONE, self._words_before
            case "backspace":
                self.words = self.words[:-1]
            case _ if len(key) == 1 and len(self.words) < FILTER_CHARACTERS_MAX:
                self.words += key
            case _:
                pass

    def _command(self, key: str, jobs: Sequence[str], *, is_over: bool) -> Request:
        match key:
            case "q" if self.view is View.GRID:
                return Request.QUIT
            case "q" | "escape" | "left":
                self._back()
            case "?":
                self.open(View.HELP)
            case "up" | "k" | "down" | "j" | "page up" | "page down" | "home" | "end":
                self._move(key, jobs)
            case "/" | "s" | "a" if self.view is View.GRID:
                self._choose(key)
            case "enter" | "right" | "w" | "l" | "c":
                self._act(key, is_over=is_over)
            case _:
                self.message = "? shows the keys"
        return Request.NOTHING

    def _choose(self, key: str) -> None:
        """Change which jobs are listed, and in which order."""
        match key:
            case "/":
                self.prompt, self._words_before = Prompt.FILTER, self.words
            case "s":
                orders = list(Order)
                self.order = orders[(orders.index(self.order) + 1) % len(orders)]
                self.message = f"order: {self.order}"
            case _:
                self.has_ended = not self.has_ended
                self.message = "all jobs" if self.has_ended else "only jobs under way"

    def _act(self, key: str, *, is_over: bool) -> None:
        """Show or cancel the chosen job."""
        if not self.chosen:
            self.message = "no job is chosen"
        elif key == "w":
            self.open(View.WHY)
        elif key == "l":
            self.open(View.LOGS)
        elif key != "c":
            self.open(View.JOB)
        elif is_over:
            self.message = f"{self.chosen} is over"
        else:
            self.prompt = Prompt.CANCEL

    def open(self, view: View) -> None:
        """Show a view; going back leads to the job, or else to the list."""
        if self.view is not view:
            if self.view in (View.GRID, View.JOB):
                self.before = self.view
            self.view, self.scroll = view, 0

    def _back(self) -> None:
        self.view, self.before, self.scroll = self.before, View.GRID, 0

    def _move(self, key: str, jobs: Sequence[str]) -> None:
        """Choose another job, or scroll a text. `scroll` counts lines from the place where the text
        is shown first, which is its end for logs."""
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -PAGE, "page down": PAGE}
        if self.view is not View.GRID:
            whole = {"home": -1_000_000, "end": 1_000_000}
            self.scroll += steps.get(key, 0) + whole.get(key, 0)
            return
        if not jobs:
            return
        at = jobs.index(self.chosen) if self.chosen in jobs else 0
        at = {"home": 0, "end": len(jobs) - 1}.get(key, at + steps.get(key, 0))
        self.chosen = jobs[max(0, min(len(jobs) - 1, at))]
