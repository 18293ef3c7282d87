//! The two that are compared.

use model::Checkpoint;

use super::Args;
use crate::args::DeviceArgs;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::session::Session;

/// The model files of A and B, opened.
pub(super) struct Sides {
    a: ModelFile,
    /// None if it is that of A.
    b: Option<ModelFile>,
}

/// One of the two, ready to run.
pub(super) struct Loaded {
    pub(super) session: Session,
    /// What it is, with all that its results depend on.
    pub(super) in_words: String,
}

impl Sides {
    /// Opens what the command line names.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub(super) fn open(args: &Args) -> Result<Self, Error> {
        let against = args.against.as_deref();
        // With a base file and a model to compare, that of A is not needed.
        if let (Some(path), true) = (against, args.base.is_some()) {
            return Ok(Self { a: ModelFile::open(Some(path))?, b: None });
        }
        let b = against.map(|path| ModelFile::open(Some(path))).transpose()?;
        Ok(Self { a: args.model.open()?, b })
    }

    fn b(&self) -> &ModelFile {
        self.b.as_ref().unwrap_or(&self.a)
    }

    /// The text as A reads it.
    ///
    /// # Errors
    /// An unreadable text; a file without a tokenizer.
    pub(super) fn a_tokens(&self, args: &Args) -> Result<Vec<u32>, Error> {
        tokens(&self.a, args)
    }

    /// The text as B reads it.
    ///
    /// # Errors
    /// As [`Sides::a_tokens`].
    pub(super) fn b_tokens(&self, args: &Args) -> Result<Vec<u32>, Error> {
        tokens(self.b(), args)
    }

    /// The fingerprint of A's vocabulary.
    ///
    /// # Errors
    /// A file without a tokenizer.
    pub(super) fn a_vocabulary(&self) -> Result<u64, Error> {
        super::vocabulary(&self.a)
    }

    /// The fingerprint of B's vocabulary.
    ///
    /// # Errors
    /// As [`Sides::a_vocabulary`].
    pub(super) fn b_vocabulary(&self) -> Result<u64, Error> {
        super::vocabulary(self.b())
    }

    /// Loads A for passages of `ctx` tokens.
    ///
    /// # Errors
    /// A model that cannot be run.
    pub(super) fn load_a(&self, args: &Args, ctx: usize) -> Result<Loaded, Error> {
        load(&self.a, &args.device, args, ctx)
    }

    /// Loads B for passages of `ctx` tokens.
    ///
    /// # Errors
    /// As [`Sides::load_a`].
    pub(super) fn load_b(&self, args: &Args, ctx: usize) -> Result<Loaded, Error> {
        load(self.b(), &args.other.after(&args.device), args, ctx)
    }
}

fn tokens(file: &ModelFile, args: &Args) -> Result<Vec<u32>, Error> {
    let tokenizer = file.tokenizer()?;
    tokenizer.encode(&args.text.read()?, args.text.special()).map_err(Error::Tokenizer)
}

fn load(file: &ModelFile, device: &DeviceArgs, args: &Args, ctx: usize) -> Result<Loaded, Error> {
    let checkpoint: Checkpoint = file.checkpoint()?;
    let config = device.config(ctx, checkpoint.hp.context);
    let session = Session::load(&checkpoint, device, config, args.show())?;
    let settings = device.in_words(ctx, checkpoint.hp.context);
    Ok(Loaded { session, in_words: format!("{}, {settings}", file.name()) })
}
