//! `tuff serve`: a model behind HTTP.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args as ClapArgs;
use engine::batch::{Limits, Scheduler};
use engine::cache::StateCache;
use engine::speculation::SpecMode;
use engine::{Engine, EngineConfig};
use kernels::Backend;
use kernels::reference::Reference;
use model::Checkpoint;
use server::{ServedModel, ServerConfig, StopSignal, stopper};

use crate::args::{Chosen, DeviceArgs, EngineArgs, ModelArg, SamplingArgs, ServerArgs, SpecArgs};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::progress::Show;
use crate::{memory, session, terminal, units};

const EXAMPLES: &str = "\
Examples:
  tuff serve                                        the sample model on http://127.0.0.1:8080
  tuff serve -m model.gguf --slots 8 --ctx 32768 --alias gpt-4o
  tuff serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt
  tuff serve --config server.toml --port 0          options from a file, and any free port

  curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once upon a time\"}'

The sampling options are for requests that set none of their own. A config file is TOML with the
options' long names, as in port = 8080 or alias = [\"a\", \"b\"]; the command line wins. Endpoints and
fields: docs/server.md. Ctrl-C lets running requests end, a second one does not.";

/// Arguments of `tuff serve`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File with options of this command.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory in MiB for states of earlier prompts and answers: a prompt that begins like one of
    /// them is not computed again. No more than --ram leaves beside the model. Changes speed, never
    /// a result; 0 is none.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    prompt_cache: u32,
    /// Only errors: no progress, no line with the address.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What is served, and how.
struct Plan {
    config: ServerConfig,
    model: ServedModel,
    limits: Limits,
    stop: StopSignal,
    /// What is said once connections are taken, but for the address.
    greeting: Option<String>,
}

/// Serves until Ctrl-C.
///
/// # Errors
/// An unusable model or setting; an address that cannot be had.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let mut config = args.server.config(args.spec.mode())?;
    // Before a model is loaded for nothing.
    server::check(&config)?;
    let file = args.model.open()?;
    let checkpoint = file.checkpoint_with(&args.spec.drafting())?;
    config.machine.file_bytes = Some(file.gguf.file_bytes());
    let sizes =
        EngineConfig { slots: args.server.slots(), ..args.engine.config(checkpoint.hp.context) };
    let (stopper, stop) = stopper();
    let name = args.server.model_name(&file.path);
    let (slots, context) = (units::count(sizes.slots, "slot"), sizes.context);
    let greeting = format!("serving {name}, {slots} of {context} tokens; Ctrl-C stops");
    let mut plan = Plan {
        config,
        model: served(args, &file, &checkpoint, name)?,
        limits: Limits { queue: args.server.queue(), ..Limits::default() },
        stop,
        greeting: (!args.quiet).then_some(greeting),
    };
    let device = &args.engine.device;
    if device.backend() == Chosen::Gpu {
        match device.new_gpu().and_then(|gpu| load(args, gpu, &checkpoint, sizes)) {
            Ok(loaded) => {
                stopper.on_signals().map_err(server::ServeError::Threads)?;
                return serve(loaded, plan);
            }
            Err(Error::Engine(error)) if device.may_change() => {
                DeviceArgs::take_cpu(&error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    match device.backend() {
        Chosen::Cpu | Chosen::Gpu => {
            let mut cpu = args.engine.device.new_cpu();
            // Before the model takes memory, and in well under a second.
            let read = cpu.read_bandwidth().ok().map(|found| found.bytes_per_second);
            plan.config.machine.read_bandwidth = read;
            let loaded = load(args, cpu, &checkpoint, sizes)?;
            stopper.on_signals().map_err(server::ServeError::Threads)?;
            serve(loaded, plan)
        }
        Chosen::Reference => {
            let loaded = load(args, Reference, &checkpoint, sizes)?;
            stopper.on_signals().map_err(server::ServeError::Threads)?;
            serve(loaded, plan)
        }
    }
}

/// The model for clients.
fn served(
    args: &Args,
    file: &ModelFile,
    checkpoint: &Checkpoint,
    name: String,
) -> Result<ServedModel, Error> {
    let tokenizer = file.tokenizer()?;
    let template = match file.has_template()? {
        true => Some(file.template()?.with_token_variables(&tokenizer)),
        false => None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(ServedModel {
        name,
        aliases: args.server.aliases(),
        created: now.as_secs(),
        tokenizer,
        template,
        sampling: args.sampling.resolve(&checkpoint.hp)?,
    })
}

/// The engine, and bytes for saved states beside it.
fn load<B: Backend>(
    args: &Args,
    backend: B,
    checkpoint: &Checkpoint,
    sizes: EngineConfig,
) -> Result<(Engine<B>, u64), Error> {
    let show = if args.quiet { Show::Never } else { Show::OnTerminal };
    let drafting = args.spec.drafting();
    let vocab = session::read_draft_vocab(checkpoint, &drafting)?;
    let (device, config) = (&args.engine.device, drafting.extend(sizes));
    let states = memory::saved_states(checkpoint, device, &config, args.prompt_cache)?;
    let how = (&device.with_saved_states(states), show);
    let mut engine = session::load(backend, checkpoint, config, how)?;
    session::load_draft_vocab(&mut engine, checkpoint, vocab)?;
    Ok((engine, states))
}

fn serve<B>((engine, states): (Engine<B>, u64), plan: Plan) -> Result<(), Error>
where
    B: Backend + 'static,
    Scheduler<B>: Send,
{
    let Plan { mut config, model, limits, stop, greeting } = plan;
    if engine.config().deferred < 2 {
        config.drafts = SpecMode::Off;
    }
    let scheduler = Scheduler::new(engine, model.tokenizer.clone(), limits)
        .with_cache(StateCache::for_states(usize::try_from(states).unwrap_or(usize::MAX)));
    server::serve(config, model, scheduler, stop, |address| {
        if let Some(greeting) = &greeting {
            terminal::note(&format!("http://{address} {greeting}"));
        }
    })?;
    Ok(())
}
