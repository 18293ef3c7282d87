fn part_at(i: u32) -> f32 {
    return part[i];
}
