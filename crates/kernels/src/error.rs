//! What can go wrong when weights are loaded or results are fetched.

use crate::KvType;
use gguf::TensorType;

/// An error of a kernel device.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The weight's block format has no kernel on this device.
    #[error("tensor {name}: format {} has no kernel on the {device} backend", ty.name())]
    UnsupportedFormat {
        /// Tensor name.
        name: String,
        /// Its block format.
        ty: TensorType,
        /// Name of the device.
        device: &'static str,
    },
    /// The bytes of a weight do not match its stated shape.
    #[error(
        "tensor {name}: {n_in} x {n_out} x {experts} values of {} need {want} bytes, found {found}",
        ty.name()
    )]
    WeightSize {
        /// Tensor name.
        name: String,
        /// Its block format.
        ty: TensorType,
        /// Values per row.
        n_in: usize,
        /// Rows per expert.
        n_out: usize,
        /// Number of experts, 1 for a plain matrix.
        experts: usize,
        /// Bytes that the shape needs (0 if the row length does not fit the format).
        want: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// A tile that the device has no kernel for.
    #[error(transparent)]
    NoSuchTile(#[from] crate::tiles::NoSuchTile),
    /// Rows were asked for that a weight does not have.
    #[error(
        "tensor {name}: row {row} was asked for, but there are {rows}; the list of rows is for \
             another model"
    )]
    RowOutOfRange {
        /// Tensor name.
        name: String,
        /// The first such row.
        row: u32,
        /// Rows over all experts.
        rows: usize,
    },
    /// A state that was to be taken over has another size than the model's states.
    #[error(
        "{what}: {found} values were given, {want} are needed; the saved state is damaged or belongs \
             to another model"
    )]
    StateSize {
        /// What it is.
        what: &'static str,
        /// Values of the model's states.
        want: usize,
        /// Values that were given.
        found: usize,
    },
    /// Heads do not fill the blocks in which keys and values are to be stored.
    #[error(
        "keys and values of {kv} need heads of a multiple of {} values, this model's have \
         {head_dim}; use f16",
        kv.block()
    )]
    KvWidth {
        /// The type.
        kv: KvType,
        /// Width of a head.
        head_dim: usize,
    },
    /// The device could not give the memory.
    #[error("the {device} backend could not allocate {bytes} bytes for {what}")]
    OutOfMemory {
        /// Name of the device.
        device: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// What the memory was for.
        what: &'static str,
    },
    /// There is no such device on this machine, or none that can do the work.
    #[error("there is no device for the {device} backend: {why}")]
    NoDevice {
        /// Name of the device.
        device: &'static str,
        /// What was found, and why it does not do.
        why: String,
    },
    /// The device is gone: its driver stopped it, or it was taken out. Nothing that it held can be
    /// had any more.
    #[error("the {device} backend lost its device: {why}; start again")]
    DeviceLost {
        /// Name of the device.
        device: &'static str,
        /// What the driver says.
        why: String,
    },
    /// The driver does not accept a program for the device.
    #[error("the {device} backend could not build the kernel {kernel}: {why}")]
    KernelBuild {
        /// Name of the device.
        device: &'static str,
        /// Name of the kernel with its parameters.
        kernel: String,
        /// What the compiler says.
        why: String,
    },
    /// The device failed at some operation since the last download; results since then are void.
    #[error("the {device} backend failed: {why}")]
    DeviceFault {
        /// Name of the device.
        device: &'static str,
        /// What the driver says.
        why: String,
    },
    /// Weights could not be read from where they are stored; results since the last download are
    /// void.
    #[error("reading weights failed: {why}")]
    Storage {
        /// What was read, where, and what to do.
        why: String,
    },
}
