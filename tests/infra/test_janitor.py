"""The janitor's watch, whatever a look at the server stumbles over."""

import logging

import httpx
import pytest

from infra.serving import janitor


class Enough(BaseException):
    """Ends the watch."""


def test_the_watch_goes_on_after_any_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    down = httpx.ConnectError("refused")
    looks = iter([KeyError("state"), down, down, None, None, Enough()])

    def clean(**_: float) -> None:
        if (outcome := next(looks)) is not None:
            raise outcome

    monkeypatch.setattr(janitor, "clean", clean)
    with caplog.at_level(logging.INFO, "envwright"), pytest.raises(Enough):
        janitor.keep_watch(every=0, max_silence=120, max_start=900, resume=0)
    assert [message.partition("(")[0].strip() for message in caplog.messages] == [
        "a look failed",
        "the Prefect server does not answer",
        "the Prefect server answers again",
    ]
