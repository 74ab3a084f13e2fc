//! Instruction sets of CPUs: their names in options, and detection at run time.
//!
//! Crates with kernels (`tandem-nnue`, `tandem-transformer`, `tandem-train`) choose among their own variants by
//! an [`Isa`]; the order of the values is by speed, so a crate without kernels for one takes the best below it.

use std::str::FromStr;
use thiserror::Error;

/// CPU instruction set. The order is by speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The baseline of the compilation target, which works on every CPU.
    Portable,
    /// SSE 4.1: 128-bit vectors.
    Sse41,
    /// AVX2 with FMA: 256-bit vectors. Most x86-64 CPUs since 2013 have them.
    Avx2,
    /// AVX-512 with F, BW, DQ, VL and VNNI: 512-bit vectors and int8 dot products.
    Avx512,
    /// AMX: products of int8 and bfloat16 tiles; everything else as with AVX-512.
    Amx,
}

impl Isa {
    /// All instruction sets in ascending order, the fastest last.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Sse41, Self::Avx2, Self::Avx512, Self::Amx];

    /// The instruction sets that this machine supports, detected at run time, in ascending order.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The fastest instruction set that this machine supports.
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }

    /// True if this CPU has the instruction set and the operating system permits its use.
    pub fn is_available(self) -> bool {
        self == Self::Portable || hardware_has(self)
    }

    /// Name as [`Self::from_str`] parses it: `portable`, `sse41`, `avx2`, `avx512` or `amx`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Sse41 => "sse41",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        }
    }
}

impl FromStr for Isa {
    type Err = IsaError;

    /// Parses a name that [`Self::name`] returns.
    ///
    /// # Errors
    /// If the name is unknown, or this machine does not support the instruction set.
    fn from_str(text: &str) -> Result<Self, IsaError> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == text);
        let isa = found.ok_or_else(|| IsaError::Unknown(text.into()))?;
        if isa.is_available() { Ok(isa) } else { Err(IsaError::Unavailable(isa)) }
    }
}

/// Error for a name that does not select an instruction set of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IsaError {
    /// The text does not name an instruction set; the message lists the names.
    #[error("no instruction set {0:?}; there are {names}", names = Isa::ALL.map(Isa::name).join(", "))]
    Unknown(String),
    /// The CPU does not have the instruction set, or the operating system does not permit it.
    #[error("this machine has no {}", .0.name())]
    Unavailable(Isa),
}

#[cfg(target_arch = "x86_64")]
fn hardware_has(isa: Isa) -> bool {
    match isa {
        Isa::Portable => true,
        Isa::Sse41 => is_x86_feature_detected!("sse4.1"),
        Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        Isa::Avx512 => {
            hardware_has(Isa::Avx2)
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
        }
        Isa::Amx => hardware_has(Isa::Avx512) && amx::is_available(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hardware_has(isa: Isa) -> bool {
    isa == Isa::Portable
}

/// AMX, which the standard library does not detect, and which a process has to request.
#[cfg(target_arch = "x86_64")]
mod amx {
    use std::arch::x86_64::__cpuid_count;
    use std::sync::OnceLock;

    pub(super) fn is_available() -> bool {
        static HERE: OnceLock<bool> = OnceLock::new();
        *HERE.get_or_init(|| has_tiles() && is_allowed())
    }

    fn has_tiles() -> bool {
        const BF16: u32 = 1 << 22;
        const TILES: u32 = 1 << 24;
        const INT8: u32 = 1 << 25;
        let features = __cpuid_count(7, 0).edx;
        features & (BF16 | TILES | INT8) == BF16 | TILES | INT8
    }

    #[cfg(target_os = "linux")]
    fn is_allowed() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const TILE_DATA: libc::c_long = 18;
        // SAFETY: the call takes two integers and touches no memory of ours; a kernel that does not know it
        // returns an error.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn is_allowed() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_to_their_instruction_set() {
        for isa in Isa::ALL {
            let expected = if isa.is_available() { Ok(isa) } else { Err(IsaError::Unavailable(isa)) };
            assert_eq!(isa.name().parse(), expected);
        }
        let error = "mmx".parse::<Isa>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no instruction set \"mmx\"; there are portable, sse41, avx2, avx512, amx"
        );
    }

    /// Kernels rely on it: those for one set call those for lower ones.
    #[test]
    fn a_machine_with_an_instruction_set_has_the_lower_ones_too() {
        let available: Vec<Isa> = Isa::available().collect();
        assert_eq!(available, Isa::ALL[..available.len()]);
        assert_eq!(available.last(), Some(&Isa::best()));
    }
}
