"""The part of curl that examples/bot.sh uses, for machines without curl."""

import http.client
import sys
from pathlib import Path
from urllib.parse import urlsplit


def main(words: list[str]) -> int:
    method, body, url, headers, form = "GET", None, "", {}, ""
    body_to = head_to = None
    timeout = 60.0
    rest = iter(words)
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-d":
            body = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-o":
            body_to = Path(next(rest))
        elif word == "-D":
            head_to = Path(next(rest))
        elif word == "-w":
            form = next(rest)
        elif word == "--max-time":
            timeout = float(next(rest))
        elif not word.startswith("-"):
            url = word
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
    status, code = "000", 7
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, None if body is None else body.encode(), headers)
        answer = connection.getresponse()
        content = answer.read()
        status, code = str(answer.status), 0
        if head_to is not None:
            head_to.write_text("".join(f"{name}: {value}\r\n" for name, value in answer.getheaders()))
        if body_to is not None:
            body_to.write_bytes(content)
        else:
            sys.stdout.buffer.write(content)
    except (OSError, http.client.HTTPException):
        pass
    sys.stdout.write(form.replace("%{http_code}", status))
    return code


sys.exit(main(sys.argv[1:]))
