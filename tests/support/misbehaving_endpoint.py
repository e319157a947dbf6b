"""A local HTTP server that answers chat completions, badly if told so."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Does to each request what comes next in the server's list; the last one is done again and again."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    timeout = 20
    question: dict

    def do_POST(self) -> None:
        self.question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.question, headers))
        behaviours = self.server.behaviours
        try:
            (behaviours.pop(0) if len(behaviours) > 1 else behaviours[0])(self)
        except OSError:
            self.close_connection = True  # the client has had enough

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """What it was asked, as (question, headers), and what it does next."""

    daemon_threads = True

    def __init__(self, behaviours: tuple[Behaviour, ...]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviours, self.closing = list(behaviours), threading.Event()
        self.asked: list[tuple[dict, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serving(*behaviours: Behaviour) -> Iterator[Server]:
    with Server(behaviours) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def completion(text: str | None, finish: str | None = "stop", prompt_tokens=11, completion_tokens=5) -> dict:
    tokens = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    usage = {**tokens, "total_tokens": prompt_tokens + completion_tokens}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    about = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return {**about, "choices": [choice], "usage": usage}


def sends(body: bytes | str | dict | list, status=200, reason=None, **headers: str) -> Behaviour:
    def behave(handler: Handler) -> None:
        text = body if isinstance(body, bytes | str) else json.dumps(body)
        data = text.encode() if isinstance(text, str) else text
        handler.send_response(status, reason)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return behave


def answers(text: str | None, **how: Any) -> Behaviour:
    return sends(completion(text, **how))


def hangs(handler: Handler) -> None:
    handler.server.closing.wait(20)


def hangs_up(handler: Handler) -> None:
    # A reset, not an end.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()
    handler.close_connection = True


def drips_body(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.wfile.write(b"x")
        time.sleep(0.02)
    handler.close_connection = True


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"\x00\xff SSH-2.0-whatever\r\n\r\n")
    handler.close_connection = True
