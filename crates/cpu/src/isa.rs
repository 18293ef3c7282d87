//! Which instruction set the kernels use.

/// Instruction sets with kernels of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust, for processors with none of the others.
    Portable,
    /// x86 with AVX2, FMA and F16C: 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same with AVX-VNNI: byte products in one instruction.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// x86 with AVX-512 F, BW, DQ and VL: 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// The same with AVX-512 VNNI and VBMI: byte products and byte permutations in one instruction.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// 64-bit Arm: 4 lanes.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// The same with the dot product of bytes.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    /// The same with the matrix product of bytes too.
    #[cfg(target_arch = "aarch64")]
    NeonI8mm,
}

impl Isa {
    /// The widest that this processor has.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }

    /// All that this processor has, the narrowest first.
    pub fn available() -> Vec<Self> {
        let mut found = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2 {
                found.push(Self::Avx2);
                if is_x86_feature_detected!("avxvnni") {
                    found.push(Self::AvxVnni);
                }
            }
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                found.push(Self::Avx512);
                if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vbmi")
                {
                    found.push(Self::Avx512Vnni);
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            found.push(Self::Neon);
            if std::arch::is_aarch64_feature_detected!("dotprod") {
                found.push(Self::NeonDot);
                if std::arch::is_aarch64_feature_detected!("i8mm") {
                    found.push(Self::NeonI8mm);
                }
            }
        }
        found
    }

    /// Short name, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => "avxvnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => "avx512vnni",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => "neondot",
            #[cfg(target_arch = "aarch64")]
            Self::NeonI8mm => "neoni8mm",
        }
    }
}
