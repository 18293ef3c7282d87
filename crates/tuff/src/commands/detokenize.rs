//! x
use clap::Args as ClapArgs;
/// Arguments
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {}
pub(crate) fn run(_args: &Args) -> Result<(), crate::error::Error> { Ok(()) }
