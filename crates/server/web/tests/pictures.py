"""Pictures of the page, to be looked at."""

from browser import DESKTOP, PHONE, Page, answering, busy, reply, say, settle

FULL = '{"error": {"message": "the queue is full: 64 requests wait"}}'

TEXT = """Binary search halves the range with every step, so it needs **O(log n)** comparisons.

```rust
fn search(values: &[u32], wanted: u32) -> Option<usize> {
    let (mut low, mut high) = (0, values.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match values[middle].cmp(&wanted) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Some(middle),
        }
    }
    None
}
```

1. The slice must be *sorted*.
2. `low + (high - low) / 2` cannot overflow.

| values | steps |
|-------:|------:|
| 1 000 | 10 |
| 1 000 000 | 20 |
"""


def pictures(browser, base, folder):
    thoughts = "The user wants a binary search in Rust. A slice, an Option as the result."
    for scheme in ["light", "dark"]:
        for name, size in [("desktop", DESKTOP), ("phone", PHONE)]:
            with Page(browser, base, viewport=size, color_scheme=scheme) as page:
                shot = lambda what: page.screenshot(path=f"{folder}/{what}-{name}-{scheme}.png")
                page.wait_for_timeout(300)
                shot("empty")
                for title in ["Names for a cat", "A story about a bear"]:
                    answering(page, reply({"content": "Yes."}))
                    say(page, title)
                    settle(page)
                    page.evaluate("document.getElementById('new-chat').click()")
                answering(page, reply({"reasoning_content": thoughts}, {"content": TEXT}))
                say(page, "How do I write a binary search in Rust?")
                settle(page)
                page.locator("details summary").click()
                page.locator("#scroll").evaluate("it => { it.scrollTop = 0; }")
                page.mouse.move(5, 400)
                shot("chat")
                page.locator("#scroll").evaluate("it => { it.scrollTop = 1e6; }")
                shot("end")
                answering(page, FULL, 429, "application/json", **{"retry-after": "1"})
                say(page, "And in Python?")
                settle(page)
                page.get_by_role("button", name="Edit and ask again").last.click()
                shot("fault")
                if name == "phone":
                    page.get_by_role("button", name="Conversations").click()
                    page.wait_for_timeout(400)
                    shot("side")
                    page.keyboard.press("Escape")
                page.get_by_role("button", name="Settings").click()
                page.wait_for_timeout(200)
                shot("settings")
                page.keyboard.press("Escape")
                streams = []
                for seed in range(3):
                    streams.append(busy(base, seed))
                page.get_by_role("tab", name="Monitor").click()
                page.wait_for_timeout(12_000)
                shot("monitor")
                page.locator(".tiers").scroll_into_view_if_needed()
                page.wait_for_timeout(200)
                shot("memory")
                [stream.close() for stream in streams]
