"""The part of jq that examples/bot.sh uses, for machines without jq, by libjq from Python."""

import json
import sys

import jq


def main(words: list[str]) -> int:
    raw = nothing = False
    args: dict[str, object] = {}
    program = "."
    rest = iter(words)
    for word in rest:
        if word == "--argjson":
            name = next(rest)
            args[name] = json.loads(next(rest))
        elif word.startswith("-"):
            raw, nothing = raw or "r" in word, nothing or "n" in word
        else:
            program = word
    compiled = jq.compile(program, args=args)
    text = sys.stdin.read() if not nothing else ""
    values = compiled.input_value(None) if nothing else compiled.input_text(text)
    for value in values:
        as_text = value if raw and isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        sys.stdout.write(f"{as_text}\n")
    return 0


sys.exit(main(sys.argv[1:]))
