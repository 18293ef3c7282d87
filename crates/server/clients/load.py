"""Load on a running server: many clients at once, some of which leave or send nonsense.

Checks that nothing but 200, 400, 429 and 503 is answered, that every answer is what one gets alone,
and that all slots and all memory but the prompt cache's are free afterwards; tells the times.
Nothing but the standard library. Usage: load.py [HOST:PORT] [CLIENTS] [ROUNDS]
"""

import asyncio
import json
import random
import sys
import time

HOST, PORT = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8080").rsplit(":", 1)
CLIENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
PROMPTS = ["Once upon a time", "The sea was", "Long ago there lived", "A dog and a cat"]
BAD = [b"{", b"[]", b"\xff\xfe", b'{"prompt": 1}', b'{"prompt": "x", "made_up": 1}', b"null"]
counts, first, wrong = {}, [], []


def body(number):
    return {"prompt": PROMPTS[number % 4], "max_tokens": 24, "seed": number % 5, "stream": True,
            "temperature": [0, 0.8][number % 2]}


async def ask(data, leave_after=None, path="/v1/completions"):
    """Status, text and time to the first event; None if the client left."""
    reader, writer = await asyncio.open_connection(HOST, PORT)
    started, at_first, text, events = time.monotonic(), None, "", 0
    try:
        head = f"POST {path} HTTP/1.1\r\nhost: {HOST}:{PORT}\r\nconnection: close\r\n"
        writer.write(head.encode() + f"content-length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        while line := await reader.readline():
            if not line.startswith(b"data: {"):
                continue
            at_first = at_first or time.monotonic() - started
            event = json.loads(line[6:])
            assert "error" not in event, event
            text += event["choices"][0]["text"]
            events += 1
            if leave_after is not None and events > leave_after:
                return None
        return status, text, at_first
    finally:
        writer.close()


async def client(number, alone):
    for turn in range(ROUNDS):
        kind = random.random()
        if kind < 0.15:
            status = (await ask(random.choice(BAD)))[0]
            assert status == 400, status
        elif kind < 0.35:
            await ask(json.dumps(body(number + turn)).encode(), random.randrange(8))
            status = "left"
        else:
            status, text, start = await ask(json.dumps(body(number + turn)).encode())
            assert status in (200, 429, 503), status
            if status == 200:
                first.append(start)
                if text != alone[(number + turn) % 20]:
                    wrong.append((number, turn, text))
        counts[status] = counts.get(status, 0) + 1


async def get(path):
    reader, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {HOST}:{PORT}\r\nconnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode().split("\r\n\r\n", 1)[1]
    writer.close()
    return text


async def memory():
    """MiB of the process, and of these in the prompt cache."""
    lines = [line.split() for line in (await get("/metrics")).splitlines()]
    values = {line[0]: float(line[1]) / 2**20 for line in lines if len(line) == 2}
    cache = values["tuff_prompt_cache_bytes"]
    return values.get("process_resident_memory_bytes", cache), cache


async def main():
    answers = [await ask(json.dumps(body(n)).encode()) for n in range(20)]
    assert all(answer[0] == 200 for answer in answers), "somebody else uses the server"
    alone = [answer[1] for answer in answers]
    generated = lambda status: json.loads(status)["totals"]["tokens_generated"]
    before, tokens, started = await memory(), generated(await get("/v1/status")), time.monotonic()
    await asyncio.gather(*(client(n, alone) for n in range(CLIENTS)))
    took = time.monotonic() - started
    for _ in range(100):
        status = json.loads(await get("/v1/status"))
        if status["queue"] == {"live": 0, "waiting": 0}:
            break
        await asyncio.sleep(0.1)
    assert status["queue"] == {"live": 0, "waiting": 0}, status
    assert not wrong, wrong[:3]
    drawn = status["totals"]["tokens_generated"] - tokens
    middle = lambda values, share: sorted(values)[int(len(values) * share)]
    print(f"{CLIENTS} clients, {ROUNDS} rounds each, {took:.1f} s: {counts}")
    print(f"time to first token: median {middle(first, 0.5):.2f} s, 95% {middle(first, 0.95):.2f} s")
    after = await memory()
    print(f"{drawn / took:.0f} tokens/s; memory beside the prompt cache: "
          f"{before[0] - before[1]:.0f} MiB before, {after[0] - after[1]:.0f} after")
    # Answers in flight and what the allocator keeps; a leak of a request's memory would show.
    assert after[0] - after[1] < before[0] - before[1] + 64


asyncio.run(main())
