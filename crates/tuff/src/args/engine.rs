//! Options of the engine: where it runs, and how large it is.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum, value_parser};
use cpu::{Cpu, CpuOptions, Interleave, Isa};
use engine::EngineConfig;
use gpu::{Gpu, GpuOptions};
use kernels::rope::RopeScaling;
use kernels::{Activations, KvType};

use super::memory::{MemoryArgs, parse_share};
use crate::error::Error;
use crate::{gpu_device, terminal, tiles};

/// The context without --ctx, unless the model's own is shorter. The caches grow with the text,
/// so a longer one costs nothing until it is used.
const DEFAULT_CONTEXT: usize = 8192;

/// The window without --chunk.
const DEFAULT_CHUNK: usize = 256;

/// The same on a GPU, which needs more rows to be busy.
const DEFAULT_GPU_CHUNK: usize = 1024;

/// Rows of a window that its kernels count, with room for drafts.
const MAX_GPU_CHUNK: usize = 32768;

/// The longest context that the model crate accepts.
const MAX_CONTEXT: u64 = model::sizes::MAX_CONTEXT as u64;

/// More threads than any machine has processors are a slip of the keyboard.
pub(crate) const MAX_THREADS: u64 = 1024;

/// Where the model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    /// The GPU, if there is one that passes a check at the start and the model fits; else the
    /// processors, after a line that says why.
    Auto,
    /// All processors, with the vector instructions they have.
    Cpu,
    /// A GPU, through Vulkan, Metal or DirectX 12.
    Gpu,
    /// Plain code on one thread, slow: what the others are held against.
    Reference,
}

/// Where the model runs, once that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// All processors.
    Cpu,
    /// A GPU.
    Gpu,
    /// Plain code.
    Reference,
}

/// Precision of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActivationType {
    /// 8 bits per value with a scale per 32 values, except where little is gained or much lost.
    Int8,
    /// As they are: slower, and closer to the model's definition.
    F32,
}

impl From<ActivationType> for Activations {
    fn from(ty: ActivationType) -> Self {
        match ty {
            ActivationType::Int8 => Self::Int8,
            ActivationType::F32 => Self::F32,
        }
    }
}

/// How kernels cut their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TilesName {
    /// As tuff audit found it to be best on this machine, where it was run.
    Auto,
    /// As built in.
    BuiltIn,
}

/// Which weights the cpu backend keeps in the order in which it reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RepackName {
    /// As many as a quarter of the free memory holds, and as much of the experts, up to 8 GiB;
    /// none where experts are read as they are used, or the process has a limit.
    Auto,
    /// None: they are read where the file is mapped.
    Off,
    /// All but experts.
    Dense,
    /// All.
    All,
}

impl From<RepackName> for Interleave {
    fn from(name: RepackName) -> Self {
        match name {
            RepackName::Auto => Self::Auto,
            RepackName::Off => Self::Nothing,
            RepackName::Dense => Self::Dense,
            RepackName::All => Self::All,
        }
    }
}

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvName {
    /// 16 bits per value.
    F16,
    /// 8 bits per value with a scale per 32 values: half the memory of f16, and less exact.
    #[value(name = "q8_0")]
    Q8_0,
    /// As they are: twice the memory of f16.
    F32,
}

impl From<KvName> for KvType {
    fn from(name: KvName) -> Self {
        match name {
            KvName::F16 => Self::F16,
            KvName::Q8_0 => Self::Q8_0,
            KvName::F32 => Self::F32,
        }
    }
}

/// How positions beyond the model's own context are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScalingName {
    /// Not at all.
    None,
    /// YaRN: the slower the turns of a rotated feature, the more it is stretched.
    Yarn,
}

/// Where and how the model runs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Tokens that the conversation or text may have in all. [default: 8192, or the model's
    /// context if that is shorter]
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..=MAX_CONTEXT))]
    ctx: Option<u64>,
}

/// Where the model runs, and in which portions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct DeviceArgs {
    /// Where the model runs.
    #[arg(long, value_enum, value_name = "NAME", default_value = "cpu")]
    backend: BackendName,
    /// The GPU to use, by a part of its name. [default: the first discrete one, or else the first]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Threads of the cpu backend. [default: one per physical core]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_THREADS))]
    threads: Option<u64>,
    /// Instruction set of the cpu backend, of those that this processor has. [default: the widest]
    #[arg(long, value_name = "NAME", value_parser = parse_isa)]
    isa: Option<Isa>,
    /// How kernels cut their work. Changes speed, never a result.
    #[arg(long, value_enum, value_name = "NAME", default_value = "auto")]
    tiles: TilesName,
    /// Weights that the cpu backend copies to memory in the order in which it reads them. Changes
    /// speed and memory, never a result.
    #[arg(long, value_enum, value_name = "NAME", default_value = "auto")]
    repack: RepackName,
    /// Precision of activations in products of the cpu backend with quantised weights.
    #[arg(long, value_enum, value_name = "TYPE", default_value = "int8")]
    activations: ActivationType,
    /// Type in which attention keeps the keys and values of the text so far.
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f16")]
    kv: KvName,
    /// How a context beyond the model's own is reached. Texts within it get worse by this.
    #[arg(long, value_enum, value_name = "NAME", default_value = "none")]
    rope_scaling: ScalingName,
    /// How many times the model's own context is reached, with --rope-scaling yarn. [default: as
    /// needed for the context]
    #[arg(long, value_name = "F", value_parser = parse_scale, requires = "rope_scaling")]
    rope_scale: Option<f32>,
    /// Tokens of a prompt that are computed together. Changes speed and memory, never a result.
    /// [default: 256, on a GPU 1024]
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..=MAX_CONTEXT))]
    chunk: Option<u64>,
    /// How much memory it may take.
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Whether `--backend auto` came to the processors; said once.
static CPU_INSTEAD: AtomicBool = AtomicBool::new(false);

impl DeviceArgs {
    /// With so many bytes for saved states of earlier texts, beside the model.
    pub(crate) fn with_saved_states(&self, bytes: u64) -> Self {
        let memory = self.memory.clone().with_saved_states(bytes);
        Self { memory, ..self.clone() }
    }

    /// Where the model runs: with auto on a GPU, if one is usable.
    pub(crate) fn backend(&self) -> Chosen {
        match self.backend {
            BackendName::Cpu => Chosen::Cpu,
            BackendName::Gpu => Chosen::Gpu,
            BackendName::Reference => Chosen::Reference,
            BackendName::Auto if CPU_INSTEAD.load(Ordering::Relaxed) => Chosen::Cpu,
            BackendName::Auto => match gpu_device::usable(&self.gpu_options()) {
                Ok(()) => Chosen::Gpu,
                Err(why) => {
                    Self::take_cpu(&why);
                    Chosen::Cpu
                }
            },
        }
    }

    /// Whether the processors may take over where the GPU fails at the start.
    pub(crate) fn may_change(&self) -> bool {
        self.backend == BackendName::Auto
    }

    /// From now on auto means the processors.
    pub(crate) fn take_cpu(why: &str) {
        if !CPU_INSTEAD.swap(true, Ordering::Relaxed) {
            terminal::note(&format!("the model runs on the processors: {why}"));
        }
    }

    /// The GPU, with the tiles that an audit found for it.
    ///
    /// # Errors
    /// [`crate::error::Error::Engine`] saying which GPUs there are and why none will do.
    pub(crate) fn new_gpu(&self) -> Result<Gpu, Error> {
        self.gpu_with(self.tiles)
    }

    /// The GPU with the built-in tiles.
    ///
    /// # Errors
    /// As for [`DeviceArgs::new_gpu`].
    pub(crate) fn built_in_gpu(&self) -> Result<Gpu, Error> {
        self.gpu_with(TilesName::BuiltIn)
    }

    fn gpu_with(&self, tiles: TilesName) -> Result<Gpu, Error> {
        let mut gpu = gpu_device::open(&self.gpu_options(), tiles == TilesName::Auto)?;
        let device = self.clone();
        gpu.set_host(move || {
            // It multiplies a part of the experts' stacks, which are loaded whole.
            let cpu = Self { repack: RepackName::Off, ..device.clone() }.new_cpu();
            gpu_device::note_helper(cpu.isa());
            cpu
        });
        Ok(gpu)
    }

    /// How the GPU is used.
    pub(crate) fn gpu_options(&self) -> GpuOptions {
        // 8 bits are what a matrix is loaded for; the device may know better.
        let activations = match self.activations {
            ActivationType::Int8 => None,
            ActivationType::F32 => Some(Activations::F32),
        };
        GpuOptions { adapter: self.gpu.clone(), activations, route: None }
    }

    /// The cpu backend, with the tiles that an audit found for it.
    pub(crate) fn new_cpu(&self) -> Cpu {
        let mut cpu = Cpu::new(self.cpu_options());
        if self.tiles == TilesName::Auto {
            tiles::equip(&mut cpu);
        }
        cpu
    }

    /// Whether dense weights are copied when they are loaded, whatever fits.
    pub(crate) fn copies_dense(&self) -> bool {
        self.backend() == Chosen::Cpu && matches!(self.repack, RepackName::Dense | RepackName::All)
    }

    /// Whether weights may be copied when they are loaded.
    pub(crate) fn repacks(&self) -> bool {
        self.backend() == Chosen::Cpu && self.repack != RepackName::Off
    }

    /// How the cpu backend is used.
    pub(crate) fn cpu_options(&self) -> CpuOptions {
        let threads = count(self.threads).unwrap_or(0);
        CpuOptions {
            threads,
            isa: self.isa.unwrap_or_else(Isa::detect),
            activations: self.activations.into(),
            interleave: self.repack.into(),
        }
    }

    /// In words, what decides about a state's bits and lies outside the engine's own sizes.
    pub(crate) fn arithmetic(&self) -> String {
        match self.backend() {
            Chosen::Gpu => {
                let (title, helper) = (gpu_device::title(), gpu_device::helper());
                format!("gpu {title} {:?}{helper}", self.activations)
            }
            Chosen::Cpu => {
                let CpuOptions { isa, activations, .. } = self.cpu_options();
                format!("cpu {} {activations:?}", isa.name())
            }
            Chosen::Reference => "reference".to_owned(),
        }
    }

    /// Sizes of an engine for one sequence of up to `context` tokens and a model that was made for
    /// `model_context`.
    pub(crate) fn config(&self, context: usize, model_context: usize) -> EngineConfig {
        let default = || match self.backend() {
            Chosen::Gpu => DEFAULT_GPU_CHUNK,
            Chosen::Cpu | Chosen::Reference => DEFAULT_CHUNK,
        };
        let most = match self.backend() {
            Chosen::Gpu => MAX_GPU_CHUNK,
            Chosen::Cpu | Chosen::Reference => usize::MAX,
        };
        let chunk = count(self.chunk).unwrap_or_else(default).min(context).min(most);
        let kv = self.kv.into();
        let rope_scaling = self.scaling(context, model_context);
        let dials = self.memory.dials();
        EngineConfig {
            slots: 1,
            context,
            chunk,
            kv,
            rope_scaling,
            dials,
            ..EngineConfig::default()
        }
    }

    /// All that results depend on, in words, for contexts of this length.
    pub(crate) fn in_words(&self, context: usize, model_context: usize) -> String {
        let activations = match self.activations {
            ActivationType::Int8 => "int8",
            ActivationType::F32 => "f32",
        };
        let device = match self.backend() {
            Chosen::Cpu => {
                let isa = self.isa.unwrap_or_else(Isa::detect).name();
                format!("cpu {isa}, activations {activations}")
            }
            Chosen::Gpu => format!("gpu, activations {activations}"),
            Chosen::Reference => "reference".to_owned(),
        };
        let kv: KvType = self.kv.into();
        let scaling = match self.scaling(context, model_context) {
            RopeScaling::None => String::new(),
            RopeScaling::Yarn { factor, .. } => format!(", yarn {factor}"),
        };
        let dials = self.memory.dials_in_words();
        format!("{device}, kv {kv}{scaling}{dials}")
    }

    fn scaling(&self, context: usize, model_context: usize) -> RopeScaling {
        match self.rope_scaling {
            ScalingName::None => RopeScaling::None,
            ScalingName::Yarn => {
                let needed = || context.div_ceil(model_context.max(1)).max(1) as f32;
                RopeScaling::yarn(self.rope_scale.unwrap_or_else(needed), model_context)
            }
        }
    }
}

/// Where another model runs that is compared with the first, A.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Engine of B (what is not given is as for A)")]
pub(crate) struct OtherDeviceArgs {
    /// Where B runs.
    #[arg(long, value_enum, value_name = "NAME")]
    b_backend: Option<BackendName>,
    /// Threads of B.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_THREADS))]
    b_threads: Option<u64>,
    /// Instruction set of B.
    #[arg(long, value_name = "NAME", value_parser = parse_isa)]
    b_isa: Option<Isa>,
    /// Precision of B's activations.
    #[arg(long, value_enum, value_name = "TYPE")]
    b_activations: Option<ActivationType>,
    /// Type in which B keeps keys and values.
    #[arg(long, value_enum, value_name = "TYPE")]
    b_kv: Option<KvName>,
    /// How B reaches a context beyond the model's own.
    #[arg(long, value_enum, value_name = "NAME")]
    b_rope_scaling: Option<ScalingName>,
    /// How many times B reaches the model's own context, with yarn.
    #[arg(long, value_name = "F", value_parser = parse_scale)]
    b_rope_scale: Option<f32>,
    /// B uses an expert in memory in place of one that is not, from this share of its probability
    /// on.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    b_prefer_resident: Option<f32>,
    /// B uses at most so many experts of a layer in windows of 2 to 16 tokens (--chunk).
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    b_window_experts: Option<u64>,
}

impl OtherDeviceArgs {
    /// Whether anything is given.
    pub(crate) fn is_given(&self) -> bool {
        let Self { b_backend, b_threads, b_isa, b_activations, b_kv, .. } = self;
        b_backend.is_some()
            || b_threads.is_some()
            || b_isa.is_some()
            || b_activations.is_some()
            || b_kv.is_some()
            || self.b_rope_scaling.is_some()
            || self.b_rope_scale.is_some()
            || self.b_prefer_resident.is_some()
            || self.b_window_experts.is_some()
    }

    /// The settings of B, where A has these.
    pub(crate) fn after(&self, a: &DeviceArgs) -> DeviceArgs {
        DeviceArgs {
            backend: self.b_backend.unwrap_or(a.backend),
            gpu: a.gpu.clone(),
            threads: self.b_threads.or(a.threads),
            isa: self.b_isa.or(a.isa),
            tiles: a.tiles,
            repack: a.repack,
            activations: self.b_activations.unwrap_or(a.activations),
            kv: self.b_kv.unwrap_or(a.kv),
            rope_scaling: self.b_rope_scaling.unwrap_or(a.rope_scaling),
            rope_scale: self.b_rope_scale.or(a.rope_scale),
            chunk: a.chunk,
            memory: a.memory.with_dials(self.b_prefer_resident, self.b_window_experts),
        }
    }
}

impl EngineArgs {
    /// Sizes of the engine for a model that was made for so many tokens of context.
    pub(crate) fn config(&self, model_context: usize) -> EngineConfig {
        let context = count(self.ctx).unwrap_or(DEFAULT_CONTEXT.min(model_context));
        self.device.config(context, model_context)
    }
}

/// An instruction set that this processor has.
pub(crate) fn parse_isa(text: &str) -> Result<Isa, String> {
    let available = Isa::available();
    available.iter().copied().find(|isa| isa.name() == text).ok_or_else(|| {
        let names: Vec<&str> = available.iter().map(|isa| isa.name()).collect();
        format!("this processor has {}", names.join(", "))
    })
}

fn parse_scale(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(scale) if (1.0..=1024.0).contains(&scale) => Ok(scale),
        Ok(_) => Err("it must be from 1 to 1024".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn count(value: Option<u64>) -> Option<usize> {
    // The parsers have limited the values to far less than any usize holds.
    value.map(|value| usize::try_from(value).unwrap_or(usize::MAX))
}
