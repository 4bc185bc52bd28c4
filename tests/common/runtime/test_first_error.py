"""Raise the first cause when several tasks end with an error."""

from koala.errors import ConfigError, first_error


def test_the_first_error_of_ours_is_told_before_others_that_came_with_it() -> None:
    ours, later = ConfigError("wrong"), ConfigError("wrong, too")
    inner = ExceptionGroup("tasks", [OSError("gone"), ours])
    assert first_error(ExceptionGroup("all", [ValueError("a"), inner, later])) is ours


def test_without_one_of_ours_it_is_the_first_of_all() -> None:
    first = OSError("gone")
    inner = BaseExceptionGroup("tasks", [first, ValueError("b")])
    assert first_error(BaseExceptionGroup("all", [inner, KeyboardInterrupt()])) is first
