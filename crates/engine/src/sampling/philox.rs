//! Philox4x32-10, a counter-based generator: the numbers of a counter need no state, so they do not
//! depend on how tokens were batched. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The four words of `counter` under `key`.
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(MULTIPLIERS[0]) * u64::from(c[0]);
        let p1 = u64::from(MULTIPLIERS[1]) * u64::from(c[2]);
        c = [
            (p1 >> 32) as u32 ^ c[1] ^ k[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ c[3] ^ k[1],
            p0 as u32,
        ];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// A number in (0, 1) for (seed, position, token).
pub fn uniform(seed: u64, position: u64, token: u32) -> f64 {
    let counter = [position as u32, (position >> 32) as u32, token, 0];
    let words = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
    let bits = (u64::from(words[1]) << 32 | u64::from(words[0])) >> 11;
    in_unit_interval(bits)
}

/// The middle of the `bits`-th of 2^53 equal parts of (0, 1), as near as f64 has it.
fn in_unit_interval(bits: u64) -> f64 {
    // The last one would be rounded up to 1.
    ((bits as f64 + 0.5) / (1u64 << 53) as f64).min(1.0 - f64::EPSILON / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known-answer vectors that the algorithm's authors publish with their library (Random123).
    #[test]
    fn fault_116_known_answers() {
        assert_eq!(
            philox4x32_10([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32_10(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn both_ends_of_the_unit_interval_are_left_out() {
        for bits in [0, 1, (1 << 52) - 1, (1 << 53) - 2, (1 << 53) - 1] {
            let x = in_unit_interval(bits);
            assert!(0.0 < x && x < 1.0, "{bits}: {x}");
        }
    }

    #[test]
    fn fault_116_every_index_is_its_own() {
        let mut seen: Vec<u64> = [0, 1, 2, 1 << 31, 1 << 32, (1 << 32) + 1, u64::MAX]
            .iter()
            .flat_map(|&position| {
                [0, 1, 248_319].map(|token| uniform(7, position, token).to_bits())
            })
            .collect();
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
