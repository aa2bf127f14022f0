"""A proxy that makes a server ignore ``response_format``: ``python -m tests.llama.proxy http://host:port``."""

import json
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Handler(BaseHTTPRequestHandler):
    """Passes requests on without their ``response_format``."""

    protocol_version = "HTTP/1.1"
    target = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked.pop("response_format", None)
        connection = HTTPConnection(self.target, timeout=120)
        try:
            connection.request("POST", self.path, json.dumps(asked), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def serve(target: str) -> None:
    """Serves until its standard input ends."""
    Handler.target = urlsplit(target).netloc
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
