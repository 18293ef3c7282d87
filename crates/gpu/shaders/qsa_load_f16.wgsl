// Unit u of the head that begins at element `head`: halves.

fn load(head: u32, u: u32) -> vec4<f32> {
    let words = cache[head + u];
    return vec4(unpack2x16float(words.x), unpack2x16float(words.y));
}
