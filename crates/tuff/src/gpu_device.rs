//! The GPU: opened, and held against the reference before it is trusted.

use std::sync::OnceLock;

use cpu::Isa;
use gpu::{Gpu, GpuOptions};
use lab::parity::Extent;

use crate::error::Error;
use crate::tiles;

/// Cases of the check at the start: one of each family, and the formats that most files have.
const CHECKED: [&str; 14] = [
    "gemv/Q8_0/",
    "gemv/IQ4_XS/",
    "gemv/Q6_K/",
    "gemv/F32/",
    "moe_gate_up/",
    "moe_down/",
    "gdn_conv",
    "gdn_scan",
    "gdn_output_gate",
    "hc_read/Q8_0",
    "hc_inject",
    "qsa",
    "ple",
    "argmax",
];

/// Rows of the windows that are checked.
const ROWS: [usize; 3] = [1, 4, 40];

/// Name, interface and driver of the GPU that was opened.
static TITLE: OnceLock<String> = OnceLock::new();

/// Name, interface and driver of the GPU that was opened; what a state's bits depend on.
pub(crate) fn title() -> &'static str {
    TITLE.get().map_or("that is not open", String::as_str)
}

/// Instruction set of the processors that multiply experts beside the GPU, once they do.
static HELPER: OnceLock<Isa> = OnceLock::new();

/// Notes that processors multiply experts beside the GPU.
pub(crate) fn note_helper(isa: Isa) {
    let _ = HELPER.set(isa);
}

/// The processors that multiply experts beside the GPU, behind a space; nothing if none do. What a
/// state's bits depend on, too.
pub(crate) fn helper() -> String {
    HELPER.get().map_or(String::new(), |isa| format!(" cpu {}", isa.name()))
}

/// Opens a GPU, with the tiles that an audit found for it if they are wanted.
///
/// # Errors
/// [`Error::Engine`] saying which GPUs there are and why none will do.
pub(crate) fn open(options: &GpuOptions, tuned: bool) -> Result<Gpu, Error> {
    let mut gpu = Gpu::new(options).map_err(engine::Error::from)?;
    tracing::info!("gpu: {}", gpu.title());
    let _ = TITLE.set(gpu.title().to_owned());
    if tuned {
        tiles::equip(&mut gpu);
    }
    Ok(gpu)
}

/// Whether a GPU is there that gives the reference's answers, or why not. Looked at once.
pub(crate) fn usable(options: &GpuOptions) -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(|| check(options)).clone()
}

fn check(options: &GpuOptions) -> Result<(), String> {
    let mut gpu = Gpu::new(options).map_err(|error| error.to_string())?;
    let names = CHECKED.map(str::to_owned);
    for case in Extent::Quick.cases(&ROWS, &names) {
        case.check(&mut gpu).map_err(|miss| format!("it failed its self-check: {miss}"))?;
    }
    Ok(())
}
