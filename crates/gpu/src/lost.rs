//! A device that is lost in the middle of a text.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use crate::testing::gpu;
use engine::speculation::NoDrafts;
use engine::{Engine, EngineConfig, Event, Feed, Generator, Request, Want};
use gguf::Gguf;
use model::Checkpoint;
use model::tokenizer::Tokenizer;
use std::ops::ControlFlow;
use std::path::Path;

#[test]
fn fault_134_a_device_lost_amid_a_text_ends_it_with_an_error() {
    let Some(gpu) = gpu() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/qwen4exp");
    let file = Gguf::open(folder.join("tiny-f32.gguf")).unwrap();
    let checkpoint = Checkpoint::load(&file).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let config = EngineConfig { context: 64, chunk: 8, ..EngineConfig::default() };
    let mut engine = Engine::new(gpu, &checkpoint, config, &mut |_| {}).unwrap();
    engine.forward(&[Feed::new(0, &[3, 4, 5], Want::Nothing)]).unwrap();

    // The backend stays with the engine, which a sink cannot reach: a copy of its device can.
    let device = engine.backend_mut().recorder.device();
    let request = Request { prompt: &[3, 4, 5, 6], max_tokens: Some(20), ..Request::default() };
    let mut seen = 0;
    let proposer = &mut NoDrafts;
    let mut generator = Generator { engine: &mut engine, slot: 0, tokenizer: &tokenizer, proposer };
    let result = generator.generate(&request, &mut |event| {
        seen += usize::from(matches!(event, Event::Text(_)));
        if seen == 2 {
            device.destroy();
        }
        ControlFlow::Continue(())
    });
    assert!(is_lost(&result.unwrap_err()), "after {seen} pieces of text");
    assert!(seen >= 2, "{seen} pieces of text");
    // It stays lost, whatever is asked of it, and nothing panics.
    assert!(engine.is_broken(0).unwrap());
    for _ in 0..2 {
        engine.reset(0).unwrap();
        assert!(is_lost(&engine.prefill(0, &[1, 2], Want::Last).unwrap_err()));
    }
    assert!(engine.snapshot(0).is_err() && engine.state_hash(0).is_err());
}

fn is_lost(error: &engine::Error) -> bool {
    let lost = matches!(error, engine::Error::Kernel(kernels::Error::DeviceLost { .. }));
    println!("{error}");
    lost
}
