"""The Prefect server that a command needs before it begins."""

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ALLOW_EPHEMERAL_MODE, temporary_settings

from envgen.errors import ConfigError
from envgen.processes import free_port
from flows.environment import start_server


def test_a_configured_server_that_does_not_answer_is_named_with_the_remedy():
    address = f"http://me:secret@127.0.0.1:{free_port()}/api"
    with temporary_settings({PREFECT_API_URL: address}), pytest.raises(ConfigError) as refused:
        start_server()
    said = str(refused.value)
    assert said.startswith("PREFECT_API_URL: http://127.0.0.1:")
    assert "start that server, or unset it" in said
    assert "secret" not in said


def test_without_an_address_and_a_temporary_server_both_settings_are_named():
    settings = {PREFECT_SERVER_ALLOW_EPHEMERAL_MODE: False}
    with (
        temporary_settings(settings, restore_defaults={PREFECT_API_URL}),
        pytest.raises(ConfigError, match="PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"),
    ):
        start_server()
