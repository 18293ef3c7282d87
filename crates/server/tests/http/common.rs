//! A server on a port of its own with the sample model, and a client that believes nothing.

use cpu::{Cpu, CpuOptions, Isa};
use engine::batch::{Limits, Scheduler};
use engine::cache::StateCache;
use engine::{
    DraftingBlock, Engine, EngineConfig, NormExtent, SamplingParams, StoreSettings, Stores,
    WeightHomes,
};
use gguf::Gguf;
use model::Checkpoint;
use model::chat::ChatTemplate;
use model::tokenizer::Tokenizer;
use serde_json::{Value, json};
use server::{ServedModel, ServerConfig, Stopper, serve, stopper};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{LazyLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const CONTEXT: usize = 512;

/// A server, which stops when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// How a server is set for a test.
pub(crate) struct Setup {
    pub(crate) slots: usize,
    pub(crate) queue: usize,
    pub(crate) context: usize,
    pub(crate) config: ServerConfig,
    /// The model.
    pub(crate) file: PathBuf,
    /// Bytes for experts in memory; all are there without.
    pub(crate) experts: Option<u64>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            slots: 4,
            queue: 32,
            context: CONTEXT,
            config: ServerConfig::local(0),
            file: sample(),
            experts: None,
        }
    }
}

/// The sample model's file.
pub(crate) fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/sample/sample.gguf")
}

/// One that all tests share that leave nothing behind.
pub(crate) fn shared() -> &'static Server {
    static SHARED: LazyLock<Server> = LazyLock::new(|| start(Setup::default()));
    &SHARED
}

pub(crate) fn start(setup: Setup) -> Server {
    let (stopper, stop) = stopper();
    let (told, address) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let (scheduler, model) = load(&setup);
        serve(setup.config, model, scheduler, stop, |address| told.send(address).unwrap()).unwrap();
    });
    let address = address.recv_timeout(Duration::from_secs(60)).unwrap();
    Server { address, stopper, thread: Some(thread) }
}

fn load(setup: &Setup) -> (Scheduler<Cpu>, ServedModel) {
    let file = Gguf::open(&setup.file).unwrap();
    let checkpoint = Checkpoint::load(&file).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let template = file.metadata().get_str("tokenizer.chat_template").unwrap().unwrap();
    let config = EngineConfig {
        slots: setup.slots,
        context: setup.context,
        chunk: 64,
        deferred: 9,
        mtp: Some(NormExtent::Whole),
        ..EngineConfig::default()
    };
    let cpu = Cpu::new(CpuOptions { threads: 2, isa: Isa::detect(), ..CpuOptions::default() });
    let stores = setup.experts.map(|bytes| {
        let settings = StoreSettings { experts: Some(bytes), ..StoreSettings::default() };
        Stores::open(&checkpoint, DraftingBlock::Loaded, settings).unwrap()
    });
    let homes = WeightHomes { stores, split: None };
    let engine = Engine::with_homes(cpu, &checkpoint, config, homes, &mut |_| {}).unwrap();
    let limits = Limits { queue: setup.queue, ..Limits::default() };
    let scheduler = Scheduler::new(engine, tokenizer.clone(), limits)
        .with_cache(StateCache::for_states(64 << 20));
    let model = ServedModel {
        name: "sample".to_owned(),
        aliases: vec!["org/other".to_owned()],
        created: 1,
        template: Some(ChatTemplate::new(template).unwrap().with_token_variables(&tokenizer)),
        tokenizer,
        sampling: SamplingParams { temperature: 1.0, top_k: 20, top_p: 0.95, ..Default::default() },
    };
    (scheduler, model)
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The error of a response that has one.
    pub(crate) fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json()["error"].clone();
        assert!(error["message"].is_string() && error["type"].is_string(), "{self:?}");
        error
    }
}

impl Server {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = config.timeout_global(Some(Duration::from_secs(60)));
        let agent = ureq::Agent::new_with_config(config.build());
        let mut request = ureq::http::Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = match body {
            "" => agent.run(request.body(()).unwrap()).unwrap(),
            body => agent.run(request.body(body.to_owned()).unwrap()).unwrap(),
        };
        let status = response.status().as_u16();
        let pair = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        let headers = response.headers().iter().map(pair).collect();
        let text = response.body_mut().read_to_string().unwrap();
        Reply { status, headers, text }
    }

    /// A whole answer.
    pub(crate) fn whole(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// All events of a streamed answer but the last word.
    pub(crate) fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = true.into();
        let reply = self.post(path, &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
        let mut events = data(&reply.text);
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{reply:?}");
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// All events of a streamed answer whose events have names.
    pub(crate) fn named_events(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = true.into();
        let reply = self.post(path, &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
        let events = reply.text.split("\n\n").filter(|event| !event.is_empty());
        let read = |event: &str| {
            let (name, data) = event.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"], "{event}");
            data
        };
        events.filter(|event| !event.starts_with(':')).map(read).collect()
    }

    /// Sends a request and returns the open connection.
    pub(crate) fn open(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: \
             {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream
    }

    pub(crate) fn status(&self) -> Value {
        self.get("/v1/status").json()
    }

    /// Waits until the status is as wanted; the test fails after a while.
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{what}: {status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.ask();
        self.stopper.ask();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// The data of all events in a stream.
pub(crate) fn data(text: &str) -> Vec<String> {
    let events = text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    events.map(|event| event.strip_prefix("data: ").expect(event).to_owned()).collect()
}

/// Reads from a connection until it has seen `text`.
pub(crate) fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the connection ended: {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..count]);
        let sofar = String::from_utf8_lossy(&all);
        if sofar.contains(text) {
            return sofar.into_owned();
        }
    }
}

/// A conversation of one message.
pub(crate) fn chat(text: &str, more: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": text}], "seed": 7});
    merge(&mut body, more);
    body
}

pub(crate) fn completion(text: &str, more: Value) -> Value {
    let mut body = json!({"prompt": text, "seed": 7});
    merge(&mut body, more);
    body
}

fn merge(body: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("{more}") };
    body.as_object_mut().unwrap().extend(more);
}

/// Puts the events of a streamed chat together as clients do, after checking that each is what it
/// must be. The result has the shape of a whole answer.
pub(crate) fn joined_chat(events: &[Value]) -> Value {
    let (mut choices, mut usage) = (Vec::<Value>::new(), Value::Null);
    for (number, event) in events.iter().enumerate() {
        for field in ["id", "object", "created", "model"] {
            assert_eq!(event[field], events[0][field], "{event}");
        }
        assert_eq!(event["object"], "chat.completion.chunk");
        let parts = event["choices"].as_array().unwrap();
        if parts.is_empty() {
            assert_eq!(number, events.len() - 1, "usage comes last");
            usage = event["usage"].clone();
            continue;
        }
        assert_eq!(event.get("usage"), events[0].get("usage"), "{event}");
        assert!(event.get("usage").is_none_or(Value::is_null));
        let [part] = &parts[..] else { panic!("{event}") };
        let index = usize::try_from(part["index"].as_u64().unwrap()).unwrap();
        if choices.len() <= index {
            choices.resize(index + 1, Value::Null);
        }
        add_chat(&mut choices[index], part, index);
    }
    let mut first = events[0].clone();
    first["object"] = "chat.completion".into();
    first["choices"] = choices.into();
    first["usage"] = usage;
    first
}

fn add_chat(choice: &mut Value, part: &Value, index: usize) {
    let delta = part["delta"].as_object().unwrap();
    if choice.is_null() {
        assert_eq!(part["delta"]["role"], "assistant");
        let message = json!({"role": "assistant", "content": null, "refusal": null});
        *choice =
            json!({"index": index, "message": message, "logprobs": null, "finish_reason": null});
    }
    assert!(choice["finish_reason"].is_null(), "nothing comes behind the end");
    choice["finish_reason"] = part["finish_reason"].clone();
    for (key, value) in delta {
        match key.as_str() {
            "content" | "reasoning_content" => append(&mut choice["message"][key], value),
            "tool_calls" => {
                for call in value.as_array().unwrap() {
                    add_call(&mut choice["message"][key], call);
                }
            }
            other => assert_eq!(other, "role"),
        }
    }
    if let Some(tokens) = part["logprobs"]["content"].as_array() {
        if choice["logprobs"].is_null() {
            choice["logprobs"] = json!({"content": [], "refusal": null});
        }
        choice["logprobs"]["content"].as_array_mut().unwrap().extend(tokens.clone());
    }
}

fn add_call(calls: &mut Value, call: &Value) {
    if calls.is_null() {
        *calls = json!([]);
    }
    let (calls, index) = (calls.as_array_mut().unwrap(), call["index"].as_u64().unwrap() as usize);
    if index == calls.len() {
        assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()) && call["type"] == "function");
        let function = json!({"name": call["function"]["name"], "arguments": ""});
        calls.push(json!({"id": call["id"], "type": "function", "function": function}));
    } else {
        assert!(call.get("id").is_none());
    }
    append(&mut calls[index]["function"]["arguments"], &call["function"]["arguments"]);
}

fn append(to: &mut Value, text: &Value) {
    let sofar = to.as_str().unwrap_or_default();
    *to = format!("{sofar}{}", text.as_str().unwrap()).into();
}

/// What must be the same of a streamed answer and a whole one.
pub(crate) fn comparable(mut answer: Value) -> Value {
    for field in ["id", "created", "usage"] {
        answer[field] = Value::Null;
    }
    for choice in answer["choices"].as_array_mut().unwrap() {
        let message = &mut choice["message"];
        if message["tool_calls"].is_array() && message["content"] == "" {
            message["content"] = Value::Null;
        }
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            call["id"] = Value::Null;
        }
        if choice["logprobs"] == json!({"content": [], "refusal": null}) {
            choice["logprobs"] = Value::Null;
        }
    }
    answer
}
