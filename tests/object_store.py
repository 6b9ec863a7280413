"""A store of objects on a loopback address that speaks as much of S3 as reading takes."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit


@contextmanager
def object_store(directory: Path) -> Iterator[str]:
    """Serve the files below a directory as objects of a bucket; yields what follows `?` in their URLs.

    Names that begin with `secret` are denied to everybody.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            name = urlsplit(self.path).path.lstrip("/").partition("/")[2]
            path = directory / name
            if name.startswith("secret"):
                self._send(403, b"", {})
            elif not path.is_file():
                self._send(404, b"", {})
            else:
                content = path.read_bytes()
                part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if part is None or not with_body:
                    self._send(200, content, {}, with_body=with_body)
                else:
                    first, last = int(part[1]), min(int(part[2]), len(content) - 1)
                    place = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
                    self._send(206, content[first : last + 1], place)

        def _send(self, code: int, content: bytes, more: dict[str, str], *, with_body: bool = True) -> None:
            self.send_response(code)
            dated = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "ETag": '"1"'}
            for key, value in {"Content-Length": str(len(content)), **dated, **more}.items():
                self.send_header(key, value)
            self.end_headers()
            if with_body:
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"region=us-east-1&endpoint_override=http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def silent_store() -> Iterator[str]:
    """A store that takes connections and never answers; yields what follows `?` in URLs of its objects."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"region=us-east-1&endpoint_override=http://127.0.0.1:{listening.getsockname()[1]}"
