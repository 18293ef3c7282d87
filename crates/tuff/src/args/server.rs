//! Options of the server: where it listens, who is let in, and what a request may have.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use engine::speculation::SpecMode;
use server::{Access, Machine, Public, RequestLimits, ServerConfig};

use super::text::read_file;
use crate::error::Error;
use crate::units;

/// Names a key for those who do not want one in a file.
const KEY_VARIABLE: &str = "TUFF_API_KEY";

/// Where the server listens, and for whom.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address to listen on; other machines reach the server only on a public one.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 is any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    /// Requests that are answered at the same time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u64).range(1..=256))]
    slots: u64,
    /// Requests that may wait for a slot; more are told to come again.
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue: usize,
    /// File of API keys, one a line (# begins a comment); requests must bear one. The environment
    /// variable TUFF_API_KEY adds a key.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Listen on a public address although no key is asked for.
    #[arg(long)]
    insecure_public: bool,
    /// Let pages of this origin use the server, as in https://example.org, or * for all; can be
    /// given several times.
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    cors_origin: Vec<String>,
    /// Name of the model for clients. [default: the file's name]
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Another name that clients may call the model by; can be given several times.
    #[arg(long, value_name = "NAME")]
    alias: Vec<String>,
    /// Largest body of a request.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_body)]
    max_body: u64,
    /// End an answer once so many tokens went round in a circle; 0 is never.
    #[arg(long, value_name = "TOKENS", default_value_t = 1024)]
    repetition_stop: usize,
    /// Time that requests have to end after Ctrl-C, in seconds; a second Ctrl-C ends them at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
}

impl ServerArgs {
    /// Sequences of the engine.
    pub(crate) fn slots(&self) -> usize {
        // The parser has limited it.
        usize::try_from(self.slots).unwrap_or(1)
    }

    /// Requests that may wait.
    pub(crate) fn queue(&self) -> usize {
        self.queue
    }

    /// The model's name for clients.
    pub(crate) fn model_name(&self, path: &Path) -> String {
        let stem = || path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        self.model_name.clone().unwrap_or_else(stem)
    }

    /// Its other names.
    pub(crate) fn aliases(&self) -> Vec<String> {
        self.alias.clone()
    }

    /// The server's settings.
    ///
    /// # Errors
    /// A host that is none, a file of keys that cannot be read or has none.
    pub(crate) fn config(&self, drafts: SpecMode) -> Result<ServerConfig, Error> {
        let body_bytes = usize::try_from(self.max_body).unwrap_or(usize::MAX);
        let public = if self.insecure_public { Public::Insecure } else { Public::WithKey };
        Ok(ServerConfig {
            address: self.address()?,
            public,
            access: Access {
                keys: self.keys()?,
                origins: self.cors_origin.clone(),
                host: Some(self.host.clone()),
            },
            limits: RequestLimits { body_bytes, ..RequestLimits::default() },
            drafts,
            loop_tokens: self.repetition_stop,
            drain: Duration::from_secs(self.drain),
            machine: Machine::default(),
        })
    }

    fn address(&self) -> Result<SocketAddr, Error> {
        if let Ok(ip) = self.host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, self.port));
        }
        let refused = |why: String| Error::Refused(format!("--host {:?}: {why}", self.host));
        let mut found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| refused(error.to_string()))?;
        found.next().ok_or_else(|| refused("there is no such address".to_owned()))
    }

    fn keys(&self) -> Result<Vec<String>, Error> {
        let mut keys = Vec::new();
        if let Some(path) = &self.api_key_file {
            keys.extend(keys_of(&read_file(path)?));
            if keys.is_empty() {
                let path = path.display();
                return Err(Error::Refused(format!("{path} holds no key: write one a line")));
            }
        }
        if let Some(key) = std::env::var_os(KEY_VARIABLE) {
            keys.push(key_of(key.to_str())?);
        }
        Ok(keys)
    }
}

/// A body that may have no byte could not be a request.
fn parse_body(text: &str) -> Result<u64, String> {
    match units::parse_bytes(text)? {
        0 => Err("no request would fit; write a size as in 16MiB".to_owned()),
        bytes => Ok(bytes),
    }
}

/// An origin as browsers send it: scheme, host and port.
fn parse_origin(text: &str) -> Result<String, String> {
    let origin = text.strip_suffix('/').unwrap_or(text);
    if ["*", "null"].contains(&origin) {
        return Ok(origin.to_owned());
    }
    let Some((scheme, host)) = origin.split_once("://").filter(|(scheme, _)| !scheme.is_empty())
    else {
        return Err(format!("an origin has a scheme, as in https://{origin}"));
    };
    if host.is_empty() || host.contains(['/', '?', '#', ' ', ',']) {
        return Err("write scheme, host and port, without a path".to_owned());
    }
    Ok(format!("{scheme}://{host}").to_ascii_lowercase())
}

/// The key in the variable: all of it, since whoever sets it means to have a key.
fn key_of(value: Option<&str>) -> Result<String, Error> {
    let refused = |why| Err(Error::Refused(format!("{KEY_VARIABLE} {why}")));
    match value.map(str::trim) {
        None => refused("is not UTF-8: use another key"),
        Some("") => refused("is empty: set a key or unset it"),
        Some(key) if key.contains(char::is_control) => refused("is no key: it must be one line"),
        Some(key) => Ok(key.to_owned()),
    }
}

fn keys_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_one_a_line() {
        let keys: Vec<String> = keys_of("# mine\nabc\n\n  def  \r\n#x").collect();
        assert_eq!(keys, ["abc", "def"]);
    }
    #[test]
    fn origins_are_written_as_browsers_write_them() {
        for (text, origin) in [
            ("https://example.org", "https://example.org"),
            ("https://Example.org/", "https://example.org"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("*", "*"),
        ] {
            assert_eq!(parse_origin(text).unwrap(), origin);
        }
        for bad in ["", "example.org", "https://", "https://a/b", "https://a//", "://a", "/"] {
            assert!(parse_origin(bad).is_err(), "{bad}");
        }
    }
}
