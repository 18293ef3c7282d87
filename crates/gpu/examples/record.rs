//! What the host spends for each kernel call of a decoded token, on both routes to the device.
//!
//! Only the time that this thread was on a processor counts, so the figures hold on a software
//! renderer as well, whose kernels run on threads of their own. Linux only.
//!
//! ```sh
//! cargo run -p gpu --example record -- fixtures/qwen4exp/tiny-f32.gguf llvmpipe
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement may stop at any surprise")]

use engine::{Engine, EngineConfig, Want};
use gguf::Gguf;
use gpu::{Gpu, GpuOptions, Route};
use model::Checkpoint;

/// Tokens that are decoded to fill tables and caches, and those that are counted.
const TOKENS: [usize; 2] = [8, 400];

/// Nanoseconds that this thread was on a processor.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or("fixtures/qwen4exp/tiny-f32.gguf".into());
    let adapter = arguments.next();
    let file = Gguf::open(path).unwrap();
    let checkpoint = Checkpoint::load(&file).unwrap();
    for route in [Route::Wgpu, Route::Direct] {
        let options =
            GpuOptions { adapter: adapter.clone(), route: Some(route), ..Default::default() };
        let gpu = Gpu::new(&options).unwrap();
        let config = EngineConfig { context: 512, ..EngineConfig::default() };
        let mut engine = Engine::new(gpu, &checkpoint, config, &mut |_| {}).unwrap();
        for (i, tokens) in TOKENS.into_iter().enumerate() {
            let (begun, calls) = (on_processor(), engine.backend_mut().calls());
            (0..tokens).for_each(|_| {
                engine.prefill(0, &[3], Want::Last).unwrap();
            });
            let calls = engine.backend_mut().calls() - calls;
            if i > 0 {
                let spent = (on_processor() - begun) / calls as f64 / 1e3;
                let each = calls / tokens as u64;
                println!("{route:?}: {each} calls a token, {spent:.2} us of the host for each");
            }
        }
    }
}
