//! A server that plays the hub.

use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong with files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// The connection ends after so many bytes.
    Cut {
        after: usize,
        times: usize,
    },
    /// Nothing more comes after so many bytes, but the connection stays.
    Stall {
        after: usize,
        times: usize,
    },
    /// It ends once, and ranges are not known.
    CutAndNoRanges {
        after: usize,
    },
    /// A bit is wrong.
    Flip {
        times: usize,
    },
    /// A byte too many is sent.
    Longer,
    /// Files are not there.
    Missing,
}

struct State {
    files: Vec<(String, Vec<u8>, u64)>,
    fault: Fault,
    token: Option<String>,
    elsewhere: Option<String>,
    listing: Option<String>,
    ranges: Vec<u64>,
    heads: String,
    /// Connections that are kept open.
    held: Vec<TcpStream>,
}

pub(crate) struct Hub {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

pub(crate) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Hub {
    pub(crate) fn start() -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            files: Vec::new(),
            fault: Fault::None,
            token: None,
            elsewhere: None,
            listing: None,
            ranges: Vec::new(),
            heads: String::new(),
            held: Vec::new(),
        }));
        let weak = Arc::downgrade(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(state) = weak.upgrade() else { return };
                let _ = answer(&stream.unwrap(), &state);
            }
        });
        Hub { address, state }
    }

    fn set(self, change: impl FnOnce(&mut State)) -> Hub {
        change(&mut self.state.lock().unwrap());
        self
    }

    pub(crate) fn with(self, path: &str, content: &[u8]) -> Hub {
        let file = (path.to_owned(), content.to_vec(), content.len() as u64);
        self.set(|state| state.files.push(file))
    }

    pub(crate) fn with_size(self, path: &str, size: u64) -> Hub {
        self.set(|state| state.files.push((path.to_owned(), Vec::new(), size)))
    }

    pub(crate) fn failing(self, fault: Fault) -> Hub {
        self.set(|state| state.fault = fault)
    }

    pub(crate) fn wanting(self, token: &str) -> Hub {
        self.set(|state| state.token = Some(token.to_owned()))
    }

    /// Sends whoever wants a file to another server.
    pub(crate) fn elsewhere(self, endpoint: &str) -> Hub {
        self.set(|state| state.elsewhere = Some(endpoint.to_owned()))
    }

    pub(crate) fn listing(self, text: &str) -> Hub {
        self.set(|state| state.listing = Some(text.to_owned()))
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where the parts began that were asked for.
    pub(crate) fn ranges(&self) -> Vec<u64> {
        self.state.lock().unwrap().ranges.clone()
    }

    /// Whether a text was in the head of any request.
    pub(crate) fn saw(&self, text: &str) -> bool {
        self.state.lock().unwrap().heads.contains(text)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.state = Arc::new(Mutex::new(State {
            files: Vec::new(),
            fault: Fault::None,
            token: None,
            elsewhere: None,
            listing: None,
            ranges: Vec::new(),
            heads: String::new(),
            held: Vec::new(),
        }));
        // Lets the thread see that nobody is there any more.
        let _ = TcpStream::connect(self.address);
    }
}

fn answer(stream: &TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let (mut head, mut reader) = (String::new(), BufReader::new(stream.try_clone()?));
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let mut state = state.lock().unwrap();
    state.heads.push_str(&head);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let authorized = |token: &String| head.contains(&format!("Bearer {token}"));
    if !state.token.as_ref().is_none_or(authorized) {
        return send(stream, "401 Unauthorized", "", b"{}");
    }
    if path == "/api/models/org/m/revision/main?blobs=true" {
        let list = state.listing.clone().unwrap_or_else(|| list(&state));
        return send(stream, "200 OK", "", list.as_bytes());
    }
    let file = path.strip_prefix(&format!("/org/m/resolve/{COMMIT}/"));
    let found = file.and_then(|file| state.files.iter().find(|(name, ..)| name == file));
    let Some((_, content, _)) = found.filter(|_| state.fault != Fault::Missing) else {
        return send(stream, "404 Not Found", "", b"{}");
    };
    if let Some(endpoint) = &state.elsewhere {
        return send(stream, "302 Found", &format!("location: {endpoint}{path}\r\n"), b"");
    }
    let content = content.clone();
    let from = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
    let from = from.and_then(|from| from.strip_suffix('-')?.parse().ok()).unwrap_or(0);
    state.ranges.push(from);
    if matches!(state.fault, Fault::Stall { times: 1.., .. }) {
        state.held.push(stream.try_clone()?);
    }
    send_file(stream, &mut state.fault, &content, from as usize)
}

fn list(state: &State) -> String {
    let file = |(name, content, size): &(String, Vec<u8>, u64)| {
        let name = serde_json::Value::from(name.as_str());
        let sum = sha256(content);
        format!(
            r#"{{"rfilename": {name}, "size": {size}, "lfs": {{"sha256": "{sum}", "size": {size}}}}}"#
        )
    };
    let files: Vec<String> = state.files.iter().map(file).collect();
    format!(r#"{{"sha": "{COMMIT}", "siblings": [{}]}}"#, files.join(", "))
}

fn send_file(
    mut stream: &TcpStream,
    fault: &mut Fault,
    content: &[u8],
    from: usize,
) -> std::io::Result<()> {
    let all = content.len();
    let mut body = content[from..].to_vec();
    let range = format!("content-range: bytes {from}-{}/{all}\r\n", all.max(1) - 1);
    let part = if from > 0 { ("206 Partial Content", range.as_str()) } else { ("200 OK", "") };
    match fault {
        Fault::Cut { after, times } | Fault::Stall { after, times } if *times > 0 => {
            *times -= 1;
            let len = body.len();
            body.truncate(*after);
            head(stream, part, len)?;
            return stream.write_all(&body);
        }
        Fault::CutAndNoRanges { after } => {
            let after = std::mem::replace(after, usize::MAX);
            head(stream, ("200 OK", ""), all)?;
            return stream.write_all(&content[..after.min(all)]);
        }
        Fault::Flip { times } if *times > 0 => {
            *times -= 1;
            body[all / 2] ^= 1;
        }
        Fault::Longer => body.push(0),
        _ => {}
    }
    send(stream, part.0, part.1, &body)
}

fn head(mut stream: &TcpStream, (status, more): (&str, &str), len: usize) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n{more}\r\n")
}

fn send(mut stream: &TcpStream, status: &str, more: &str, body: &[u8]) -> std::io::Result<()> {
    head(stream, (status, more), body.len())?;
    stream.write_all(body)
}
