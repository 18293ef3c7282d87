//! The program `tuff`: arguments in, crates wired together, text and messages out.
//!
//! `cli` and `args` mirror the command line. Each command in `commands` resolves its arguments
//! into the settings that the libraries below take, and only those reach the engine. What can go
//! wrong is an [`error::Error`], which has an exit code and prints as one line.

#![forbid(unsafe_code)]

mod args;
mod cache_folder;
mod cli;
mod columns;
mod commands;
mod config_file;
mod conversations;
mod draft_vocab_file;
mod error;
mod gpu_device;
mod hub_folder;
mod ids;
mod interrupt;
mod logging;
mod making;
mod memory;
mod model_file;
mod output;
mod progress;
mod session;
mod stats;
mod stored;
mod table;
mod terminal;
mod tiles;
mod units;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cpu::LineAllocator = cpu::LineAllocator;

fn main() -> ExitCode {
    let cli = match config_file::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => return error.report(),
    };
    logging::start(cli.verbose, cli.command.is_quiet());
    let result = commands::run(cli.command);
    stored::finish();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
