// Results that are only stored.

fn leave(row: u32, column: u32, value: f32) {
    y[row * p.y_width + column] = value;
}
