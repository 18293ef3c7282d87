//! Parameters of a kernel call: one definition for the host and the shader.

use bytemuck::Pod;

/// A struct of 4-byte scalars that is handed to a shader as it lies in memory.
pub(crate) trait Params: Pod {
    /// Its declaration in WGSL, and that of the variable `p` that holds it.
    const WGSL: &'static str;
}

/// Declares a [`Params`] struct of `u32` and `f32` fields.
macro_rules! params {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $ty,)+
        }

        impl $crate::params::Params for $name {
            const WGSL: &'static str = concat!(
                "struct Params {",
                $(stringify!($field), ": ", stringify!($ty), ", ",)+
                "}\nvar<immediate> p: Params;\n",
            );
        }
    };
}
pub(crate) use params;
