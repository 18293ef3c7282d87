//! Panels in plain Rust, eight rows at a time.

use super::lanes::RowLanes;
use super::panel::RowPointers;
use quant::Half;

/// Eight lanes in plain Rust.
#[derive(Debug)]
pub(crate) struct Portable;

const ROWS: usize = 8;
type Ints = [u32; ROWS];
type Floats = [f32; ROWS];

#[inline(always)]
fn each(f: impl Fn(usize) -> u32) -> Ints {
    std::array::from_fn(f)
}

#[inline(always)]
fn each_byte(f: impl Fn(usize, usize) -> u8) -> Ints {
    each(|r| u32::from_le_bytes(std::array::from_fn(|j| f(r, j))))
}

fn byte(v: &Ints, r: usize, j: usize) -> u8 {
    (v[r] >> (8 * j)) as u8
}

impl RowLanes for Portable {
    const ROWS: usize = ROWS;
    const PANELS: usize = 1;
    const BIAS: u8 = 0;
    type V = Ints;
    type F = Floats;

    #[inline(always)]
    unsafe fn splat(x: u32) -> Ints {
        [x; ROWS]
    }
    #[inline(always)]
    unsafe fn columns(rows: &RowPointers, at: usize) -> [Ints; 4] {
        let word = |r: usize, j: usize| {
            let bytes = rows.row(r).wrapping_add(at + 4 * j);
            // SAFETY: the caller vouches for 16 bytes from `at` in every row.
            u32::from_le_bytes(unsafe { bytes.cast::<[u8; 4]>().read() })
        };
        let word = |j: usize| each(|r| word(r, j));
        [word(0), word(1), word(2), word(3)]
    }
    #[inline(always)]
    unsafe fn and(a: Ints, b: Ints) -> Ints {
        each(|r| a[r] & b[r])
    }
    #[inline(always)]
    unsafe fn or(a: Ints, b: Ints) -> Ints {
        each(|r| a[r] | b[r])
    }
    #[inline(always)]
    unsafe fn xor(a: Ints, b: Ints) -> Ints {
        each(|r| a[r] ^ b[r])
    }
    #[inline(always)]
    unsafe fn shl(a: Ints, bits: u32) -> Ints {
        a.map(|a| a << bits)
    }
    #[inline(always)]
    unsafe fn shr(a: Ints, bits: u32) -> Ints {
        a.map(|a| a >> bits)
    }
    #[inline(always)]
    unsafe fn add32(a: Ints, b: Ints) -> Ints {
        each(|r| a[r].wrapping_add(b[r]))
    }
    #[inline(always)]
    unsafe fn add8(a: Ints, b: Ints) -> Ints {
        each_byte(|r, j| byte(&a, r, j).wrapping_add(byte(&b, r, j)))
    }
    #[inline(always)]
    unsafe fn sub8(a: Ints, b: Ints) -> Ints {
        each_byte(|r, j| byte(&a, r, j).wrapping_sub(byte(&b, r, j)))
    }
    #[inline(always)]
    unsafe fn look_up(table: &[u8; 16], bytes: Ints) -> Ints {
        each_byte(|r, j| table[usize::from(byte(&bytes, r, j) & 15)])
    }
    #[inline(always)]
    unsafe fn masks(bits: Ints) -> Ints {
        each_byte(|r, j| 0u8.wrapping_sub((bits[r] >> j) as u8 & 1))
    }
    #[inline(always)]
    unsafe fn gather(table: &[u32], index: Ints) -> Ints {
        index.map(|i| table[i as usize])
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Ints {
        // SAFETY: the caller vouches for 4 bytes per row.
        each(|r| u32::from_le_bytes(unsafe { p.add(4 * r).cast::<[u8; 4]>().read() }))
    }
    #[inline(always)]
    unsafe fn store(p: *mut u8, v: Ints) {
        for (r, v) in v.into_iter().enumerate() {
            // SAFETY: the caller vouches for 4 bytes per row.
            unsafe { p.add(4 * r).cast::<[u8; 4]>().write(v.to_le_bytes()) };
        }
    }
    #[inline(always)]
    unsafe fn to_f32(v: Ints) -> Floats {
        v.map(|v| v as i32 as f32)
    }
    #[inline(always)]
    unsafe fn from_bits(v: Ints) -> Floats {
        v.map(f32::from_bits)
    }
    #[inline(always)]
    unsafe fn half(v: Ints) -> Floats {
        v.map(|v| Half::from_bits(v as u16).to_f32())
    }
    #[inline(always)]
    unsafe fn splat_f32(x: f32) -> Floats {
        [x; ROWS]
    }
    #[inline(always)]
    unsafe fn load_f32(p: *const f32) -> Floats {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<Floats>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_f32(p: *mut f32, v: Floats) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<Floats>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add_f32(a: Floats, b: Floats) -> Floats {
        std::array::from_fn(|r| a[r] + b[r])
    }
    #[inline(always)]
    unsafe fn mul_f32(a: Floats, b: Floats) -> Floats {
        std::array::from_fn(|r| a[r] * b[r])
    }
    #[inline(always)]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        std::array::from_fn(|r| a[r] * b[r] + c[r])
    }
    #[inline(always)]
    unsafe fn values(x: *const i8) -> Ints {
        // SAFETY: the caller vouches for 4 values.
        [u32::from_le_bytes(unsafe { x.cast::<[u8; 4]>().read() }); ROWS]
    }
    #[inline(always)]
    unsafe fn dot(sum: Ints, codes: Ints, values: Ints) -> Ints {
        let product = |r: usize, j: usize| {
            i32::from(byte(&codes, r, j) as i8) * i32::from(byte(&values, r, j) as i8)
        };
        each(|r| {
            let four = product(r, 0) + product(r, 1) + product(r, 2) + product(r, 3);
            sum[r].wrapping_add(four as u32)
        })
    }
}
