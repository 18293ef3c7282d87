//! The hub over HTTP: what a repository holds, and parts of its files.

use crate::{Error, ModelName};
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, StatusCode, Uri};

/// The hub, unless another is named.
pub const ENDPOINT: &str = "https://huggingface.co";
/// Bytes of a repository's list of files at most.
const MAX_LIST: u64 = 32 << 20;
const MAX_REDIRECTS: usize = 5;
const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(60);
/// Time without a byte after which a transfer counts as broken.
const IDLE: Duration = Duration::from_secs(30);

/// A hub.
#[derive(Clone)]
pub struct Remote {
    endpoint: String,
    token: Option<String>,
    agent: Agent,
}

/// Tokens are not for logs.
impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// What a repository holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The commit, in hexadecimal digits.
    pub commit: String,
    /// Its files.
    pub files: Vec<RemoteFile>,
}

/// A file on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the repository; relative, and never out of it.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What its content is called: its checksum in hexadecimal digits; empty if there is none.
    pub content: String,
    /// Which checksum that is.
    pub checksum: Checksum,
}

/// What a file is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The SHA-256 of the content, which large files have.
    Sha256,
    /// Git's name for the content, a SHA-1: what the other files have.
    GitBlob,
    /// The server names none.
    Missing,
}

/// A part of a file, up to its end.
pub(crate) struct Part {
    /// Where it begins.
    pub(crate) from: u64,
    pub(crate) body: Box<dyn Read + Send>,
}

impl Remote {
    /// The hub at `endpoint`; `None` is [`ENDPOINT`].
    pub fn new(endpoint: Option<&str>, token: Option<String>) -> Self {
        Self::with_idle(endpoint, token, IDLE)
    }

    /// The same, with another time without a byte after which a transfer counts as broken.
    pub fn with_idle(endpoint: Option<&str>, token: Option<String>, idle: Duration) -> Self {
        let endpoint = endpoint.unwrap_or(ENDPOINT).trim_end_matches('/').to_owned();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Followed here: files lie with others, whom the token is not for.
            .max_redirects(0)
            .https_only(endpoint.starts_with("https://"))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(idle))
            .timeout_per_write(Some(idle))
            .user_agent(concat!("tuff/", env!("CARGO_PKG_VERSION")));
        Self { endpoint, token, agent: Agent::new_with_config(config.build()) }
    }

    /// One request, whose answer may be a redirection.
    fn ask(&self, url: &str, from: Option<u64>) -> Result<Response<ureq::Body>, Error> {
        let mut request = self.agent.get(url);
        let own = origin(url).is_some() && origin(url) == origin(&self.endpoint);
        if let Some(token) = self.token.as_ref().filter(|_| own) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(from) = from {
            request = request.header("range", format!("bytes={from}-"));
        }
        request.call().map_err(|error| transport(url, &error))
    }

    fn get(&self, url: &str, from: Option<u64>) -> Result<Response<ureq::Body>, Error> {
        let mut response = self.ask(url, from)?;
        let mut at = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            if !response.status().is_redirection() {
                break;
            }
            let target = response.headers().get("location").and_then(|it| it.to_str().ok());
            at = target.and_then(|target| redirected(&at, target)).ok_or_else(|| {
                let reason = "the server redirects to nowhere".to_owned();
                Error::Answer { url: url.to_owned(), reason }
            })?;
            response = self.ask(&at, from)?;
        }
        let (url, status) = (url.to_owned(), response.status());
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                Ok(response)
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(Error::Denied { url, status: status.as_u16() })
            }
            StatusCode::NOT_FOUND => Err(Error::NotFound { url }),
            _ => Err(Error::Status { url, status: status.as_u16() }),
        }
    }

    /// What a repository holds.
    ///
    /// # Errors
    /// If the server cannot be asked, or what it says cannot be used.
    pub fn list(&self, name: &ModelName) -> Result<Listing, Error> {
        let url = format!("{}/api/models/{}/revision/main?blobs=true", self.endpoint, name.repo);
        let response = self.get(&url, None)?;
        let wrong = |reason: String| Error::Answer { url: url.clone(), reason };
        let body = response.into_body().into_with_config().limit(MAX_LIST).reader();
        let value: Value = serde_json::from_reader(body)
            .map_err(|error| wrong(format!("the list of files cannot be read: {error}")))?;
        let commit = value["sha"].as_str().filter(|commit| is_hex(commit)).map(str::to_owned);
        let commit = commit.ok_or_else(|| wrong("the list of files names no commit".to_owned()))?;
        let files = value["siblings"].as_array();
        let files = files.ok_or_else(|| wrong("there is no list of files".to_owned()))?;
        Ok(Listing { commit, files: files.iter().filter_map(file).collect() })
    }

    /// A file from byte `from` on, or all of it if the server knows nothing else.
    pub(crate) fn open(
        &self,
        name: &ModelName,
        commit: &str,
        file: &RemoteFile,
        from: u64,
    ) -> Result<Part, Error> {
        let path = file.path.split('/').map(encoded).collect::<Vec<_>>().join("/");
        let url = format!("{}/{}/resolve/{commit}/{path}", self.endpoint, name.repo);
        let wrong = |reason: String| Error::Answer { url: url.clone(), reason };
        let response = self.get(&url, (from > 0).then_some(from))?;
        let header = |name: &str| response.headers().get(name).and_then(|it| it.to_str().ok());
        let from = match response.status() {
            StatusCode::PARTIAL_CONTENT => {
                let range = header("content-range").and_then(|range| range.strip_prefix("bytes "));
                let (first, all) = range
                    .and_then(|range| Some((range.split_once('-')?.0, range.rsplit_once('/')?.1)))
                    .ok_or_else(|| wrong("the server does not say which part it sends".into()))?;
                if first.parse() != Ok(from) || all.parse() != Ok(file.size) {
                    return Err(wrong("the server sends another part than was asked for".into()));
                }
                from
            }
            StatusCode::OK => 0,
            _ => return Err(wrong(format!("the server has no byte {from} of the file"))),
        };
        let body = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(Part { from, body: Box::new(body) })
    }
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    Some((uri.scheme_str()?.to_owned(), uri.authority()?.as_str().to_ascii_lowercase()))
}

/// Where a redirection from `url` leads.
fn redirected(url: &str, target: &str) -> Option<String> {
    if target.starts_with('/') && !target.starts_with("//") {
        let (scheme, host) = origin(url)?;
        return Some(format!("{scheme}://{host}{target}"));
    }
    origin(target).map(|_| target.to_owned())
}

fn transport(url: &str, error: &ureq::Error) -> Error {
    Error::Transport { url: url.to_owned(), reason: error.to_string() }
}

/// A file of the list, if its path can be trusted and its size is known.
fn file(value: &Value) -> Option<RemoteFile> {
    let path = value["rfilename"].as_str().filter(|path| is_inside(path))?.to_owned();
    let lfs = &value["lfs"];
    let sum = |value: &Value, digits| {
        let sum = value.as_str().filter(|sum| is_hex(sum) && sum.len() == digits)?;
        Some(sum.to_ascii_lowercase())
    };
    // Of a large file git has only a note, so its name for that says nothing of the content.
    let blob = || sum(&value["blobId"], 40).filter(|_| lfs.is_null());
    let size = lfs["size"].as_u64().or_else(|| value["size"].as_u64())?;
    let (content, checksum) = match sum(&lfs["sha256"], 64) {
        Some(sum) => (sum, Checksum::Sha256),
        None => blob().map_or((String::new(), Checksum::Missing), |it| (it, Checksum::GitBlob)),
    };
    Some(RemoteFile { path, size, content, checksum })
}

fn is_hex(text: &str) -> bool {
    (40..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path stays inside the folder that it is relative to, on every system.
fn is_inside(path: &str) -> bool {
    let part = |part: &str| {
        let odd = |c: char| c.is_control() || "\\:*?\"<>|".contains(c);
        !part.is_empty() && !part.chars().all(|c| c == '.') && !part.contains(odd)
    };
    path.len() <= 512 && path.split('/').all(part)
}

/// A part of a path as a URL has it.
fn encoded(part: &str) -> String {
    let one = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    part.bytes().map(one).collect()
}
