"""A server, and pages that believe nothing: what the tests of the page share."""

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import expect

MODEL = Path(__file__).resolve().parents[4] / "models/sample/sample.gguf"
LONG = "Tell me a very long story about a bear and a fox."
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 800}


@contextlib.contextmanager
def serving(program, *options, env=None):
    """A server on a free port; its address."""
    command = [program, "serve", "-m", str(MODEL), "--port", "0", "--prompt-cache", "64", *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    try:
        for line in process.stderr:
            if found := re.search(r"http://[\d.]+:\d+", line):
                break
        else:
            raise SystemExit("the server did not start")
        yield found.group()
    finally:
        process.terminate()
        process.wait(20)


def status(base):
    return json.load(urllib.request.urlopen(f"{base}/v1/status"))


def until(what, found, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what}")


class Page:
    """A page in a context of its own, which fails the test on any fault in its console."""

    def __init__(self, browser, base, **options):
        self.context = browser.new_context(viewport=options.pop("viewport", DESKTOP), **options)
        self.page = self.context.new_page()
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda it: self._outside(it.url, base))
        self.base = base

    def _note(self, message):
        expected = "Failed to load resource" in message.text
        if message.type in ("error", "warning") and not expected:
            self.faults.append(message.text)

    def _outside(self, url, base):
        if not url.startswith((base, "blob:" + base)):
            self.faults.append(f"asked for {url}")

    def __enter__(self):
        self.page.goto(self.base)
        return self.page

    def __exit__(self, kind, *_):
        faults = self.faults
        self.context.close()
        if kind is None:
            assert not faults, faults


def say(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def settle(page):
    expect(page.get_by_role("button", name="Send")).to_be_visible(timeout=60_000)


def settings(page, **values):
    page.get_by_role("button", name="Settings").click()
    for name, value in values.items():
        page.locator(f"#settings [name={name}]").fill(str(value))
    page.get_by_role("button", name="Save").click()


def reply(*deltas, finish="stop"):
    """A stream as the server would send it."""
    parts = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    parts.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    parts.append({"choices": [], "usage": {"completion_tokens": len(deltas)}})
    return "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"


def answering(page, body, status_code=200, kind="text/event-stream", **headers):
    """Has the next chats answered with this."""
    seen = []

    def handle(route):
        seen.append(route.request.post_data_json)
        route.fulfill(status=status_code, body=body, headers={"content-type": kind, **headers})

    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", handle)
    return seen


def with_fields(page, **fields):
    """Has chats go to the server with these fields besides."""

    def handle(route):
        body = {**route.request.post_data_json, **fields}
        route.continue_(post_data=json.dumps(body))

    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", handle)


def endless(page):
    """Has answers go on for long."""
    with_fields(page, min_tokens=2000, max_tokens=4000, repetition_stop=0, reasoning_effort="none")


def busy(base, seed=0):
    """A request of somebody else that goes on until what is returned is closed."""
    body = {"prompt": "Once upon a time", "min_tokens": 4000, "max_tokens": 5000, "stream": True,
            "repetition_stop": 0, "seed": seed}
    return urllib.request.urlopen(f"{base}/v1/completions", json.dumps(body).encode())
