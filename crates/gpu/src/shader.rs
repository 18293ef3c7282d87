//! A kernel's WGSL text: constants, parameters and bindings put before the text of its file.

use crate::params::Params;
use std::fmt::Write;

/// How a shader uses a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A storage buffer that a shader sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// Name of the variable.
    pub(crate) name: &'static str,
    /// Its WGSL type.
    pub(crate) ty: &'static str,
    /// Whether it is written, or both read and written.
    pub(crate) access: Access,
}

/// A buffer that is only read.
pub(crate) const fn read(name: &'static str, ty: &'static str) -> Binding {
    Binding { name, ty, access: Access::Read }
}

/// A buffer that is written, perhaps also read.
pub(crate) const fn write(name: &'static str, ty: &'static str) -> Binding {
    Binding { name, ty, access: Access::Write }
}

/// What makes a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Shader {
    /// Family and parameters: no other kernel has this name.
    pub(crate) name: String,
    /// Storage buffers, in the order in which a call names them.
    pub(crate) bindings: Vec<Binding>,
    /// Bytes of the parameters.
    pub(crate) params: u32,
    /// All of the text; its entry point is `main`.
    pub(crate) text: String,
}

impl Shader {
    /// A shader of the files `sources` with constants by name.
    pub(crate) fn new<P: Params>(
        family: &str,
        constants: &[(&str, u32)],
        bindings: Vec<Binding>,
        sources: &[&str],
    ) -> Self {
        let mut name = family.to_owned();
        let mut text = String::new();
        for (constant, value) in constants {
            // Writing to a string does not fail.
            let _ = write!(name, " {constant}={value}");
            let _ = writeln!(text, "const {constant}: u32 = {value}u;");
        }
        text.push_str(P::WGSL);
        Self::declare(&mut text, &bindings);
        sources.iter().for_each(|source| text.push_str(source));
        Self { name, bindings, params: size_of::<P>() as u32, text }
    }

    /// Appends the declarations of the bindings.
    pub(crate) fn declare(text: &mut String, bindings: &[Binding]) {
        for (index, Binding { name, ty, access }) in bindings.iter().enumerate() {
            let access = match access {
                Access::Read => "read",
                Access::Write => "read_write",
            };
            let _ = writeln!(
                text,
                "@group(0) @binding({index}) var<storage, {access}> {name}: array<{ty}>;"
            );
        }
    }
}
