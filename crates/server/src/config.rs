//! How the server is set.

use std::net::SocketAddr;
use std::time::Duration;

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens; port 0 is any that is free.
    pub address: SocketAddr,
    /// Whether anybody may be let in without a key from other machines.
    pub public: Public,
    /// Who is let in.
    pub access: Access,
    /// What a request may ask for.
    pub limits: RequestLimits,
    /// Who drafts.
    pub drafts: engine::speculation::SpecMode,
    /// Tokens of a circle at which an answer ends, unless a request says otherwise; 0 is never.
    pub loop_tokens: usize,
    /// How long requests may go on after the server was asked to stop.
    pub drain: Duration,
    /// What it is told of the machine, for those who watch.
    pub machine: Machine,
}

/// What a server is told of the machine and of the model's files, as it does not see it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// Bytes of the model's files.
    pub file_bytes: Option<u64>,
    /// Bytes per second that the processors read from memory at most, if that was measured and
    /// they are what computes.
    pub read_bandwidth: Option<f64>,
}

/// Whether a server that asks for no key may listen where other machines reach it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Public {
    /// No.
    #[default]
    WithKey,
    /// Yes: whoever set this knows why.
    Insecure,
}

/// Who is let in.
#[derive(Clone, Default)]
pub struct Access {
    /// Keys, one of which a request must bear; without any, none is asked for.
    pub keys: Vec<String>,
    /// Origins of pages that may use the server beside its own, as in `https://example.org`; `*`
    /// is all.
    pub origins: Vec<String>,
    /// The name that the server was told to listen on, which clients may call it by.
    pub host: Option<String>,
}

/// Keys are not for logs.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { keys, origins, host } = self;
        let mut shown = f.debug_struct("Access");
        shown
            .field("keys", &keys.len())
            .field("origins", origins)
            .field("host", &host.as_deref().unwrap_or_default())
            .finish()
    }
}

/// What a request may ask for, beside what the engine itself limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Time for a body to come.
    pub body_time: Duration,
    /// Time for the headers to come; also how long a connection may wait for its next request.
    pub header_time: Duration,
    /// Time in which nothing could be written because the client does not read; then its connection
    /// ends.
    pub write_time: Duration,
    /// Connections at once; more wait to be taken.
    pub connections: usize,
    /// Messages of a conversation.
    pub messages: usize,
    /// Functions that may be called.
    pub tools: usize,
    /// Answers to one request.
    pub choices: usize,
    /// Stop strings.
    pub stops: usize,
    /// Bytes of a stop string.
    pub stop_bytes: usize,
    /// Tokens with a bias.
    pub biases: usize,
    /// Likeliest tokens in each place.
    pub log_probs: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes: 16 << 20,
            body_time: Duration::from_secs(60),
            header_time: Duration::from_secs(30),
            write_time: Duration::from_secs(60),
            connections: 1024,
            messages: 4096,
            tools: 512,
            choices: 16,
            stops: 16,
            stop_bytes: 1024,
            biases: 1024,
            log_probs: 20,
        }
    }
}

impl ServerConfig {
    /// On this machine only, for everybody on it.
    pub fn local(port: u16) -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            public: Public::default(),
            access: Access::default(),
            limits: RequestLimits::default(),
            drafts: engine::speculation::SpecMode::default(),
            loop_tokens: 1024,
            drain: Duration::from_secs(30),
            machine: Machine::default(),
        }
    }
}
