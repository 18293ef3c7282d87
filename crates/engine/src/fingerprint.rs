//! Short numbers that tell models and texts apart; the same on every machine and in every build.

use model::Checkpoint;

/// FNV-1a over 64 bits. Nothing relies on it against somebody who wants a collision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Of nothing.
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn add_number(&mut self, number: usize) {
        self.add(&(number as u64).to_le_bytes());
    }

    pub(crate) fn add_tokens(&mut self, tokens: &[u32]) {
        // A step per token: long texts are hashed piece by piece.
        for &token in tokens {
            let mixed = (self.0 ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3);
            self.0 = mixed ^ mixed >> 32;
        }
    }
}

/// Of a model as a backend runs it: what a state depends on besides the tokens. Of each tensor,
/// name, format, shape and both ends count; reading all of them would take as long as loading.
pub(crate) fn of_model(checkpoint: &Checkpoint, settings: &str) -> Fingerprint {
    const END: usize = 64;
    let mut print = Fingerprint::new();
    print.add(settings.as_bytes());
    print.add(format!("{:?}", checkpoint.hp).as_bytes());
    for tensor in checkpoint.tensors() {
        print.add(tensor.name.as_bytes());
        print.add(tensor.ty.name().as_bytes());
        [tensor.n_in, tensor.n_out, tensor.experts].iter().for_each(|&n| print.add_number(n));
        let bytes = &tensor.bytes[..];
        print.add(&bytes[..bytes.len().min(END)]);
        print.add(&bytes[bytes.len().saturating_sub(END)..]);
    }
    print
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_values_count_and_nothing_else() {
        let of = |tokens: &[u32]| {
            let mut print = Fingerprint::new();
            print.add_tokens(tokens);
            print
        };
        assert_eq!(of(&[1, 2]), of(&[1, 2]));
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[0]), of(&[0, 0]));
        let mut letter = Fingerprint::new();
        letter.add(b"a");
        assert_eq!(letter, Fingerprint(0xaf63_dc4c_8601_ec8c));
    }
}
