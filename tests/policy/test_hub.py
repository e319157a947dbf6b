"""The hub is asked once, and what it answers, or that it does not, is said at once."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.envwright_command import envwright

from envgen.errors import ModelError
from policy.hub import SECONDS, check_hub


@contextmanager
def hub(status: int, error: str = "") -> Iterator[str]:
    """A server that answers every question for a file so."""

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", '"0"')
            self.send_header("Content-Length", "2")
            if error:
                self.send_header("X-Error-Code", error)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def endpoint(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Send the questions of this process to another address than the hub's, with an empty cache."""

    def send_to(address: str) -> None:
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    return send_to


def test_a_model_that_the_hub_has_passes(endpoint):
    with hub(200) as address:
        endpoint(address)
        check_hub("some/model")


@pytest.mark.parametrize(
    ("status", "error"), [(401, ""), (404, "RepoNotFound"), (404, "EntryNotFound"), (403, "GatedRepo")]
)
def test_a_model_that_the_hub_does_not_show_is_refused(endpoint, status: int, error: str):
    with hub(status, error) as address:
        endpoint(address)
        with pytest.raises(ModelError, match=rf"^no/such-model: .*it answered {status}.*check the name"):
            check_hub("no/such-model")


def test_what_is_no_hub_id_is_refused_without_a_question(endpoint):
    endpoint("http://127.0.0.1:9")
    with pytest.raises(ModelError, match="no such folder/at/all: is no directory here, and no hub id"):
        check_hub("no such folder/at/all")


def test_a_model_in_the_cache_and_a_shipped_one_need_no_network(endpoint, tmp_path):
    endpoint("http://127.0.0.1:9")
    folder = tmp_path / "models--some--model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (folder / "snapshots" / ("0" * 40) / "config.json").write_text("{}")
    check_hub("some/model")
    check_hub("tiny")


@pytest.mark.slow
def test_a_hub_that_is_silent_is_given_up(endpoint):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}")
        begin = time.monotonic()
        with pytest.raises(ModelError, match=r"hub cannot be asked \(ReadTimeout\)"):
            check_hub("some/model")
        assert time.monotonic() - begin < SECONDS + 5


@pytest.mark.parametrize("command", ["benchmark no/such-model", "run micro --set model=no/such-model"])
def test_without_network_a_command_says_so_before_it_starts_anything(tmp_path, command: str):
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hub")}
    done = envwright(tmp_path, *command.split(), code=2, timeout=60, **nowhere)
    assert (
        "no/such-model: is not in this machine's cache, and the Hugging Face hub cannot be asked"
        in done.stderr
    )
    assert "starting the orchestrator" not in done.stdout
    assert not (tmp_path / "runs").exists()
