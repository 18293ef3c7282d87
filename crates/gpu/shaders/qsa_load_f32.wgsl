// Unit u of the head that begins at element `head`.

fn load(head: u32, u: u32) -> vec4<f32> {
    return cache[head + u];
}
