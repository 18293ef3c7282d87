"""The web page in a browser, against a running server with the sample model.

    python3 -m venv /tmp/browser && /tmp/browser/bin/pip install playwright
    cargo build --release
    /tmp/browser/bin/python crates/server/web/tests/page.py target/release/tuff

Starts the server itself. Uses the Chromium of the system, or the one that CHROMIUM names. With
--pictures DIR it writes pictures of the page there instead, to be looked at.
"""

import argparse
import json
import os
import re
import shutil
import sys
import urllib.request
from pathlib import Path

from browser import (LONG, PHONE, Page, answering, busy, endless, reply, say, serving, settings,
                     settle, status, until, with_fields)
from pictures import pictures
from playwright.sync_api import expect, sync_playwright
from samples import HOSTILE, MARKDOWN


def streaming_and_stop(browser, base):
    with Page(browser, base) as page:
        endless(page)
        say(page, LONG)
        answer = page.locator(".answer")
        lengths = set()
        until("text comes in pieces",
              lambda: lengths.add(len(answer.inner_text())) or len(lengths) > 5)
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        assert status(base)["queue"]["live"] == 1
        page.keyboard.press("Escape")
        until("the slot is free", lambda: status(base)["queue"]["live"] == 0, 5)
        settle(page)
        expect(page.locator(".foot")).to_contain_text("stopped")
        # By the button too.
        say(page, LONG)
        until("it answers", lambda: status(base)["queue"]["live"] == 1, 5)
        page.get_by_role("button", name="Stop").click()
        until("the slot is free", lambda: status(base)["queue"]["live"] == 0, 5)
        # And by leaving.
        settle(page)
        say(page, LONG)
        until("it answers", lambda: status(base)["queue"]["live"] == 1, 5)
        page.goto("about:blank")
        until("the slot is free", lambda: status(base)["queue"]["live"] == 0, 5)
        page.goto(base)
        expect(page.locator(".user")).to_have_count(3)


def edit_and_regenerate(browser, base):
    with Page(browser, base) as page:
        settings(page, max_tokens=24, seed=3, temperature=0.8)
        with_fields(page, reasoning_effort="none")
        box = page.get_by_label("Message", exact=True)
        box.fill("First")
        box.press("Shift+Enter")
        assert box.input_value() == "First\n"
        box.press_sequentially("line")
        box.press("Enter")
        settle(page)
        expect(page.locator(".bubble")).to_have_text("First\nline")
        first = page.locator(".answer").inner_text()
        say(page, "Second")
        settle(page)
        expect(page.locator(".message")).to_have_count(4)
        page.get_by_role("button", name="Answer again").first.click()
        settle(page)
        expect(page.locator(".message")).to_have_count(2)
        # The same seed, the same answer, but for its speed.
        assert page.locator(".answer .markdown").inner_text() in first
        page.get_by_role("button", name="Edit and ask again").click()
        editor = page.get_by_label("Edit the message")
        expect(editor).to_be_focused()
        editor.press("Escape")
        expect(page.locator(".bubble")).to_have_text("First\nline")
        page.get_by_role("button", name="Edit and ask again").click()
        editor.fill("Changed")
        page.get_by_role("button", name="Ask again").click()
        settle(page)
        expect(page.locator(".bubble")).to_have_text("Changed")
        expect(page.locator(".message")).to_have_count(2)


def conversations(browser, base):
    with Page(browser, base) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        settings(page, max_tokens=8, system="Be brief.")
        for text in ["About bears", "About foxes", "About owls"]:
            page.get_by_role("button", name="New conversation").click()
            say(page, text)
            settle(page)
        names = page.locator("#chats .name")
        expect(names).to_have_text(["About owls", "About foxes", "About bears"])
        page.reload()
        expect(names).to_have_text(["About owls", "About foxes", "About bears"])
        expect(page.locator(".bubble")).to_have_text("About owls")
        page.get_by_role("button", name="Settings").click()
        expect(page.locator("#settings [name=system]")).to_have_value("Be brief.")
        page.keyboard.press("Escape")
        names.nth(2).click()
        expect(page.locator(".bubble")).to_have_text("About bears")
        page.get_by_role("button", name="Rename About bears").click()
        page.get_by_label("Title").fill("Bears <i>")
        page.keyboard.press("Enter")
        expect(names).to_have_text(["About owls", "About foxes", "Bears <i>"])
        with page.expect_download() as download:
            page.get_by_role("button", name="Export Bears <i>").click()
        chat = json.loads(Path(download.value.path()).read_text())
        assert chat["messages"][0] == {"role": "user", "content": "About bears"}, chat
        page.locator("#chats li").nth(1).hover()
        page.get_by_role("button", name="Delete About foxes").click()
        expect(names).to_have_text(["About owls", "Bears <i>"])
        # An answer goes on while another conversation is shown.
        with_fields(page, min_tokens=1000, max_tokens=1000, repetition_stop=0)
        say(page, LONG)
        names.nth(1).click()
        expect(page.locator("#chats .running")).to_have_count(1)
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        names.nth(0).click()
        settle(page)
        expect(page.locator(".foot").last).to_contain_text("1000 tokens")
        page.get_by_role("button", name="Delete all").click()
        expect(names).to_have_count(0)
        # The oldest make room.
        page.evaluate("""async () => {
            const store = await import("/web/store.js");
            for (let at = 0; at < 130; at += 1) {
                const messages = [{ role: "user", content: "x".repeat(100_000) }];
                store.keep({ id: `${at}`, title: `t${at}`, updated: at, messages });
            }
        }""")
        page.reload()
        expect(names.first).to_have_text("t129")
        assert 10 < names.count() <= 100


def hostile_text(browser, base):
    with Page(browser, base) as page:
        def harmless(root):
            bad = page.locator(f"{root} :is(script, img, iframe, svg[onload], b, i, style, object)")
            expect(bad.and_(page.locator(":not(.dots i)"))).to_have_count(0)
            assert page.evaluate("window.hacked") is None

        answering(page, reply({"reasoning_content": HOSTILE}, *[
            {"content": letter} for letter in HOSTILE]))
        say(page, HOSTILE)
        settle(page)
        harmless("#messages")
        expect(page.locator(".bubble")).to_have_text(HOSTILE.strip())
        links = page.locator(".markdown a").evaluate_all("all => all.map(it => it.href)")
        assert links == ["https://evil.example/pixel.png", "https://example.org/a?b=c",
                         "https://example.org/bare"], links
        for link in page.locator(".markdown a").all():
            assert "noopener" in link.get_attribute("rel")
        handlers = page.evaluate("""[...document.querySelectorAll("*")].flatMap((it) =>
            [...it.attributes].filter((at) => at.name.startsWith("on"))).length""")
        assert handlers == 0
        page.reload()
        harmless("#messages")
        harmless("#chats")
        # What is in the browser's storage is not believed either.
        page.evaluate("""() => {
            localStorage.setItem("tuff.chat.bad", '{"id": 1}');
            localStorage.setItem("tuff.chat.worse", '<script>');
            localStorage.setItem("tuff.settings", '{"temperature": {}, "key": 1}');
            localStorage.setItem("tuff.theme", 'x"onload=alert(1)');
        }""")
        page.reload()
        expect(page.locator("#chats .name")).to_have_count(1)


def model_makes_markup(browser, base):
    """The model itself, made to write markup: of these three tokens only, and hot."""
    data = json.dumps({"content": "<script>"}).encode()
    ids = json.load(urllib.request.urlopen(f"{base}/tokenize", data))["tokens"]
    assert len(ids) == 3
    with Page(browser, base) as page:
        with_fields(page, logit_bias={str(token): 100 for token in ids}, temperature=20, top_k=3,
                    top_p=1, max_tokens=300, reasoning_effort="none", repetition_stop=0, seed=1)
        say(page, "Write a script")
        settle(page)
        expect(page.locator(".answer .markdown")).to_contain_text("<script>")
        expect(page.locator("#messages script")).to_have_count(0)


def growing_markdown(browser, base):
    """A text that comes letter by letter looks as one that comes at once; what is done stays."""
    with Page(browser, base) as page:
        for text in [MARKDOWN, HOSTILE]:
            same = page.evaluate("""async (text) => {
                const { MarkdownView } = await import("/web/markdown.js");
                const div = () => document.createElement("div");
                const [whole, grown] = [div(), div()];
                const view = new MarkdownView(grown);
                for (let at = 1; at <= text.length; at += 1) {
                    const before = [...grown.children];
                    view.update(text.slice(0, at));
                    const stay = before.slice(0, -2).every((it, n) => grown.children[n] === it);
                    if (!stay) return `made again at ${at}: ${text.slice(0, at)}`;
                    new MarkdownView(whole).clear();
                    new MarkdownView(whole).update(text.slice(0, at));
                    if (whole.innerHTML !== grown.innerHTML) {
                        return `${at}: ${whole.innerHTML}\\n${grown.innerHTML}`;
                    }
                }
                return whole.innerHTML;
            }""", text)
            assert same.startswith("<"), same
        slow = page.evaluate("""async () => {
            const { MarkdownView } = await import("/web/markdown.js");
            const took = [];
            for (const piece of ["**a ", "[x](", "`", "_a*", "| a", "- x\\n", "> ", "![", "w "]) {
                const view = new MarkdownView(document.createElement("div"));
                const start = performance.now();
                view.update(piece.repeat(30000));
                took.push([piece, performance.now() - start]);
            }
            return took.filter(([, ms]) => ms > 3000);
        }""")
        assert slow == [], slow


def split_events(browser, base):
    """A stream is read the same wherever it is cut."""
    with Page(browser, base) as page:
        read = page.evaluate("""async () => {
            const { events } = await import("/web/sse.js");
            const text = 'data: {"a":"\\u00e9\\u{1f642}"}\\r\\n\\r\\n: ping\\n\\n'
                + 'data:x\\ndata: y\\n\\nid: 1\\n\\n';
            const bytes = new TextEncoder().encode(text);
            const all = new Set();
            for (let cut = 0; cut <= bytes.length; cut += 1) {
                const parts = cut === 0 ? [...bytes].map((b) => Uint8Array.of(b))
                    : [bytes.slice(0, cut), bytes.slice(cut)];
                const stream = new ReadableStream({ start(to) {
                    parts.forEach((part) => to.enqueue(part));
                    to.close();
                } });
                const found = [];
                for await (const data of events(stream)) found.push(data);
                all.add(JSON.stringify(found));
            }
            return [...all];
        }""")
        assert [json.loads(it) for it in read] == [
            ['{"a":"\u00e9\U0001f642"}', "x\ny"]], read


def thinking(browser, base):
    with Page(browser, base) as page:
        thoughts = [{"reasoning_content": "Let me "}, {"reasoning_content": "see."}]
        sent = answering(page, reply(*thoughts, {"content": "It is **so**."}, finish="length"))
        settings(page, system="Sys", top_k=5, seed=9)
        say(page, "Why?")
        settle(page)
        fold = page.locator("details.thinking")
        assert fold.get_attribute("open") is None
        expect(page.locator(".thoughts")).to_be_hidden()
        fold.locator("summary").click()
        expect(page.locator(".thoughts")).to_have_text("Let me see.")
        expect(page.locator(".markdown strong")).to_have_text("so")
        expect(page.locator(".foot")).to_contain_text("stopped at the limit")
        page.get_by_role("button", name="Answer again").click()
        settle(page)
        assert sent[0] == sent[1] == {
            "messages": [{"role": "system", "content": "Sys"}, {"role": "user", "content": "Why?"}],
            "top_k": 5, "seed": 9, "stream": True, "stream_options": {"include_usage": True},
        }, sent


def faults(browser, base):
    def fault(message):
        return json.dumps({"error": {"message": message, "type": "t", "param": None, "code": None}})

    with Page(browser, base) as page:
        shown = page.locator(".fault")
        for code, message, wanted, headers in [
            (429, "the queue is full", "Try again in 7 s", {"retry-after": "7"}),
            (400, "the model file has no chat template", "no chat template", {}),
            (500, "<b>broken</b>", "<b>broken</b>", {}),
        ]:
            answering(page, fault(message), code, "application/json", **headers)
            say(page, "Hello")
            expect(shown.last).to_contain_text(wanted)
        answering(page, "<html>bad gateway</html>", 502, "text/html")
        page.get_by_role("button", name="Try again").last.click()
        expect(shown.last).to_contain_text("502")
        half = reply({"content": "Half"}).split("\n\n")[0] + "\n\n"
        answering(page, half)
        page.get_by_role("button", name="Try again").last.click()
        expect(shown.last).to_contain_text("ended before")
        expect(page.locator(".answer").last).to_contain_text("Half")
        answering(page, half + "data: " + fault("the engine failed") + "\n\n")
        page.get_by_role("button", name="Try again").last.click()
        expect(shown.last).to_contain_text("The engine failed")
        page.unroute("**/v1/chat/completions")
        page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
        page.get_by_role("button", name="Try again").last.click()
        expect(shown.last).to_contain_text("connection to the server is lost")
        page.get_by_role("tab", name="Monitor").click()
        expect(page.locator(".lost")).to_contain_text("is lost")
        page.unroute("**/v1/**")
        expect(page.locator(".lost")).to_be_hidden()


def asks_for_the_key(browser, program):
    with serving(program, env={"TUFF_API_KEY": "secret"}) as base, Page(browser, base) as page:
        field = page.locator("#settings [name=key]")
        expect(field).to_be_focused()
        field.fill("wrong")
        field.press("Enter")
        expect(page.locator("#notice")).to_contain_text("not valid")
        expect(field).to_be_focused()
        field.fill("secret")
        field.press("Enter")
        expect(page.locator("#model-name")).to_have_text("sample")
        assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
        settings(page, max_tokens=5)
        say(page, "Hello")
        settle(page)
        expect(page.locator(".fault:visible")).to_have_count(0)
        # Kept only on wish.
        page.reload()
        expect(field).to_be_focused()
        field.fill("secret")
        page.get_by_label("Keep the key in this browser").check()
        page.get_by_role("button", name="Save").click()
        page.reload()
        expect(page.locator("#model-name")).to_have_text("sample")


def the_monitor(browser, base):
    with Page(browser, base) as page:
        asked = []
        page.on("request", lambda it: asked.append(it.url) if "status" in it.url else None)
        page.get_by_role("tab", name="Monitor").press("Enter")
        page.get_by_role("tab", name="Chat").press("ArrowRight")
        stream = busy(base)
        expect(page.locator(".slot.answer")).to_have_count(1)
        expect(page.locator(".slot.answer .tokens")).to_contain_text("/s")
        read = page.locator(".tile", has_text="Weights read")
        expect(read).to_contain_text(re.compile(r"[1-9].* [kMG]B/s"))
        expect(read).to_contain_text(re.compile(r"% of [\d.]+ [MG]B/s memory"))
        tile = page.locator(".tile", has_text="Decoding")
        until("a speed", lambda: float(re.search(r"([\d.]+)\s+tokens/s", tile.inner_text())[1]) > 0)
        stream.close()
        expect(page.locator(".slot.answer")).to_have_count(0)
        for name in ["Prompts", "Drafts accepted", "Requests", "Prompt tokens reused",
                     "Prompt cache", "Keys and values", "Memory of the server", "Weights read",
                     "Read from storage"]:
            expect(page.locator(".tile", has_text=name).first).to_contain_text(re.compile(r"\d"))
        expect(page.locator(".tier .name")).to_have_text(["RAM", "Model file"])
        ram = page.locator(".tier").first
        for part in ["weights", "prompt cache", "program"]:
            expect(ram.locator(".legend")).to_contain_text(part)
        width = ram.locator(".stack").bounding_box()["width"]
        parts = [it.bounding_box()["width"] for it in ram.locator(".stack i").all()]
        assert 0 < sum(parts) <= width + 1, (parts, width)
        assert page.locator(".spark .curve").first.get_attribute("d").count("L") >= 1
        # Nobody asks while nobody looks.
        page.get_by_role("tab", name="Chat").click()
        page.wait_for_timeout(300)
        before = len(asked)
        page.wait_for_timeout(2500)
        assert len(asked) == before
        page.goto(f"{base}/#monitor")
        page.reload()
        expect(page.locator(".board")).to_be_visible()


def phone(browser, base):
    for scheme in ["light", "dark"]:
        with Page(browser, base, viewport=PHONE, has_touch=True, is_mobile=True,
                  color_scheme=scheme) as page:
            def fits():
                width = page.evaluate("document.scrollingElement.scrollWidth")
                inner = page.locator("#scroll, #monitor, #settings").evaluate_all(
                    "all => all.filter((it) => it.scrollWidth > it.clientWidth).length")
                assert (width, inner) == (360, 0), (width, inner)

            fits()
            wide = (f"```\n{'wide ' * 80}\n```\n{'x' * 400}\n\n"
                    f"| a | b |\n|--|--|\n|{'long ' * 30}|{'y' * 90}|\n")
            answering(page, reply({"content": MARKDOWN + "~~~\n\n" + wide}))
            say(page, "x" * 300)
            settle(page)
            fits()
            page.get_by_role("button", name="Conversations").click()
            expect(page.get_by_role("button", name="New conversation")).to_be_focused()
            fits()
            page.keyboard.press("Escape")
            expect(page.get_by_role("button", name="New conversation")).to_be_hidden()
            page.get_by_role("button", name="Settings").click()
            fits()
            page.keyboard.press("Escape")
            page.get_by_role("tab", name="Monitor").click()
            expect(page.locator(".tile").first).to_contain_text("tokens/s")
            fits()


def themes(browser, base):
    """Follows the system, then the switch; text can be read in both."""
    contrast = """() => {
        const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = (color) => {
            const [r, g, b] = rgb(color).map((it) => it / 255)
                .map((it) => it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (node) => {
            for (let at = node; at; at = at.parentElement) {
                const color = getComputedStyle(at).backgroundColor;
                if (rgb(color)[3] !== 0) return color;
            }
        };
        const texts = [...document.querySelectorAll("body *")].filter((node) =>
            node.checkVisibility({ opacityProperty: true }) && node.closest("svg") === null
            && [...node.childNodes].some((it) => it.nodeType === 3 && it.data.trim()));
        return texts.map((node) => {
            const pair = [getComputedStyle(node).color, behind(node)].map(light);
            const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
            return [ratio, node.className, node.textContent.slice(0, 30)];
        }).filter(([ratio]) => ratio < 4.5);
    }"""
    seen = []
    for scheme in ["light", "dark"]:
        with Page(browser, base, color_scheme=scheme) as page:
            answering(page, reply({"reasoning_content": "Hm."}, {"content": MARKDOWN}))
            say(page, "Show me")
            settle(page)
            colour = "getComputedStyle(document.body).backgroundColor"
            seen.append(page.evaluate(colour))
            assert page.evaluate(contrast) == [], scheme
            page.get_by_role("tab", name="Monitor").click()
            expect(page.locator(".tile").first).to_contain_text("tokens/s")
            assert page.evaluate(contrast) == [], scheme
            switch = page.get_by_role("button", name="Theme")
            switch.click()
            assert switch.get_attribute("aria-label") == "Theme: light"
            light = page.evaluate(colour)
            switch.click()
            page.reload()
            assert light != page.evaluate(colour), "the choice is kept"
    assert seen[0] != seen[1]


def copying(browser, base):
    with Page(browser, base, permissions=["clipboard-read", "clipboard-write"]) as page:
        answering(page, reply({"content": "Hi **you**\n```\na <b>\n  c\n```"}))
        say(page, "Hello")
        settle(page)
        for button, wanted in [("Copy the code", "a <b>\n  c"),
                               ("Copy", "Hi **you**\n```\na <b>\n  c\n```")]:
            page.get_by_role("button", name=button, exact=True).last.click()
            expect(page.locator("#announce")).to_have_text("Copied")
            assert page.evaluate("navigator.clipboard.readText()") == wanted


def keyboard_and_labels(browser, base):
    """Everything has a name, and the Tab key goes through the page in its order."""
    with Page(browser, base) as page:
        answering(page, reply({"content": "Hi\n```\ncode\n```"}))
        say(page, "Hello")
        settle(page)
        page.get_by_role("button", name="Settings").click()
        unnamed = page.evaluate("""() =>
            [...document.querySelectorAll("button, input, select, textarea, dialog")].filter((it) =>
                !it.labels?.length && !it.getAttribute("aria-label") && !it.textContent.trim()
                && !it.getAttribute("aria-labelledby")).map((it) => it.outerHTML)""")
        assert unnamed == [], unnamed
        page.keyboard.press("Escape")
        page.locator(".skip").focus()
        order = []
        for _ in range(30):
            page.keyboard.press("Tab")
            name = page.evaluate("""() => { const it = document.activeElement;
                return it.getAttribute("aria-label") ?? it.textContent.trim(); }""")
            order.append(name)
            if name == "Send":
                break
        wanted = ["Chat", "Theme: system", "Settings", "New conversation", "Messages",
                  "Edit and ask again", "Copy the code", "Answer again", "Message", "Send"]
        places = [order.index(name) for name in wanted]
        assert places == sorted(places), order


TESTS = [streaming_and_stop, edit_and_regenerate, conversations, hostile_text, model_makes_markup,
         growing_markdown, split_events, thinking, faults, the_monitor, phone, themes,
         copying, keyboard_and_labels]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tuff", help="the program")
    parser.add_argument("--only", help="only tests whose name contains this")
    parser.add_argument("--pictures", metavar="DIR", help="write pictures there, test nothing")
    options = parser.parse_args()
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    failed = 0
    with sync_playwright() as playwright, serving(options.tuff, "--slots", "4") as base:
        # As root, as in a container, Chromium has no sandbox.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        if options.pictures:
            return pictures(browser, base, options.pictures)
        tests = [(test, base) for test in TESTS] + [(asks_for_the_key, options.tuff)]
        for test, argument in tests:
            if options.only and options.only not in test.__name__:
                continue
            try:
                test(browser, argument)
                print(f"ok      {test.__name__}", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED  {test.__name__}: {error}", flush=True)
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
