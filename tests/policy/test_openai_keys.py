"""Where an endpoint's key comes from, and that nobody sees it."""

import logging

import pytest
from support.misbehaving_endpoint import sends, serving
from test_openai_model import KEY, failure, model_at

from envgen.errors import ModelError
from policy.chat.endpoint import Endpoint, check_endpoint, read_key


@pytest.mark.parametrize(
    "behaviour",
    [
        sends({"error": {"message": f"Incorrect key: {KEY}."}}, 401, f"No {KEY}", X_Request_Id=KEY),
        sends("x" * 190 + KEY, 403),
        sends(KEY * 50, 500, Retry_After=KEY),
        sends(f"no JSON, but {KEY}", 200, f"Fine {KEY}", X_Request_Id=KEY),
        sends({"choices": [], KEY: KEY}),
    ],
)
def test_a_key_that_the_server_repeats_is_in_no_error_and_no_log(behaviour, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with serving(behaviour) as server:
        model = model_at(server.url)
        failure(model)
    assert KEY not in caplog.text
    assert KEY not in repr(model)


NO_VARIABLES = [KEY, "0123456789abcdef0123456789abcdef", "a1b2c3d4secret", "", KEY * 50]
NO_ADDRESSES = [f"https://me:{KEY}@host/v1", f"https://{KEY}@host/v1", f"https://host/v1?key={KEY}"]
NO_ADDRESSES += [f"https://host/v1#{KEY}", f"http://host:{KEY}/v1", f"http://host/{KEY * 50}", ""]
NO_ADDRESSES += ["http://[::1/v1", "ftp://host/v1", "host/v1", "http://", "http://host/v1\nX: y"]


@pytest.mark.parametrize(
    ("field", "value"),
    [*(("api_key_env", one) for one in NO_VARIABLES), *(("base_url", one) for one in NO_ADDRESSES)],
)
def test_an_endpoint_that_cannot_be_or_holds_a_key_is_refused_without_repeating_it(field: str, value: str):
    with pytest.raises(ValueError, match=f"^{field}: expected ") as refused:
        check_endpoint(Endpoint.model_validate({"model": "m", field: value}))
    assert "secret" not in str(refused.value)
    assert "0123" not in str(refused.value)


def test_an_endpoint_may_be_anywhere_and_its_key_is_read_from_the_environment(monkeypatch):
    for url in ("https://api.openai.com/v1", "http://[::1]:8000/v1", "https://a.b/c/openai/v1/"):
        check_endpoint(Endpoint(model="m", base_url=url, api_key_env="MY_KEY_2"))
    endpoint = Endpoint(model="m", api_key_env="MY_KEY")
    monkeypatch.delenv("MY_KEY", raising=False)
    assert read_key(endpoint) == ""
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    assert read_key(endpoint) == KEY
    for wrong in (f"{KEY}\nX: y", f"Bearer {KEY}", f"{KEY}ä"):
        monkeypatch.setenv("MY_KEY", wrong)
        with pytest.raises(ModelError, match="MY_KEY holds characters that no key has") as refused:
            read_key(endpoint)
        assert KEY not in str(refused.value)
