"""Texts that the tests show."""

HOSTILE = """# <img src=x onerror="window.hacked=1">

<script>window.hacked = 2</script> and **<b onclick="hacked=3">bold</b>**

[a](javascript:window.hacked=4) [b](JaVaScRiPt:window.hacked=5) 
[c](data:text/html,<script>hacked=6</script>)
[d](vbscript:x) [e](//evil.example) [f](/web/app.js) ![g](https://evil.example/pixel.png)
[good](https://example.org/a?b=c) https://example.org/bare.

| <script>hacked=7</script> | b |
|---|---|
| <svg onload="hacked=8"> | `<i>` |

```html"><script>window.hacked=9</script>
<img src=x onerror="window.hacked=10">
```
- <iframe srcdoc="<script>parent.hacked=11</script>"></iframe>
"""

MARKDOWN = """Intro with *emphasis*, **strong**, `code` and snake_case_name.
Second line of it

## Heading ##
1. one
2. two
   - inner
   - more

   still in two

9) other list

> quoted
> - list in it

| a | b |
|:-:|--:|
| 1 | **2** |

```rust
fn main() {
    println!("hello");
}
```
- a
- b
* * *
~~~
``` not closed
"""
