//! Prints what the operations beside the matrix products take, at the sizes of the full model: one
//! thread and two, T = 1, 4 and 128, microseconds a call. Run with `--release`; the best of many
//! calls counts, so that other work on the machine does not. The argument, if any, picks operations
//! by the start of their name. States and caches alternate between several copies, as between
//! layers.

use cpu::{Cpu, CpuOptions};
use gguf::TensorType;
use kernels::gdn::GdnInput;
use kernels::hc::HcRead;
use kernels::moe::{MoeChoice, SharedExpert};
use kernels::ple::PleInput;
use kernels::qsa::AttendQuery;
use kernels::rope::RopeScaling;
use kernels::weight::WeightShape;
use kernels::*;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: cpu::LineAllocator = cpu::LineAllocator;

const H: usize = 2560;
const STREAMS: usize = 4;
const WIDE: usize = H * STREAMS;
/// Small, so that the matrices of `hc_read` take little time; theirs is subtracted.
const RANK: usize = 32;
const VOCAB: usize = 248_320;
/// Layers that the states are spread over.
const COPIES: usize = 4;

/// Values in [-scale, scale), the same in every run.
fn values(len: usize, scale: f32) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * scale
    };
    (0..len).map(|_| next()).collect()
}

fn matrix(cpu: &mut Cpu, n_in: usize, n_out: usize) -> Result<cpu::CpuMatrix, Error> {
    let bytes: Vec<u8> = values(n_in * n_out, 0.05).iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape = WeightShape { n_in, n_out, experts: 1 };
    let weight = Weight::new("m", TensorType::F32, shape, bytes.into())?;
    cpu.load_matrix(&weight, Activations::F32)
}

/// Best time of a call in microseconds.
fn best(mut call: impl FnMut(usize)) -> f64 {
    let started = Instant::now();
    let (mut best, mut calls) = (f64::INFINITY, 0);
    while calls < 5 || started.elapsed() < Duration::from_millis(120) {
        let run = Instant::now();
        call(calls);
        best = best.min(run.elapsed().as_secs_f64());
        calls += 1;
    }
    best * 1e6
}

struct Bench {
    cpu: Cpu,
    rows: usize,
    only: String,
}

impl Bench {
    fn print(&self, name: &str, us: f64) {
        let (isa, threads) = (self.cpu.isa().name(), self.cpu.threads());
        println!("{name:<16} {isa:<8} {threads} threads  T={:<4} {us:>10.2} us", self.rows);
    }

    fn wants(&self, name: &str) -> bool {
        name.starts_with(self.only.as_str())
    }

    fn hc(&mut self) -> Result<(), Error> {
        let (cpu, rows) = (&mut self.cpu, self.rows);
        let shape = HcShape { streams: STREAMS, width: H, eps: 1e-6 };
        let (down, up) = (matrix(cpu, WIDE, RANK)?, matrix(cpu, RANK, WIDE)?);
        let inject = matrix(cpu, WIDE, STREAMS)?;
        let norm = values(WIDE, 1.0);
        let w = HcWeights { norm: &norm, down: &down, up: &up, inject: Some(&inject) };
        let mut x = values(rows * WIDE, 1.0);
        let (mut u, mut weights) = (vec![0.0; rows * H], vec![0.0; rows * STREAMS]);
        let read = best(|_| {
            let out = HcRead { u: &mut u, weights: &mut weights };
            cpu.hc_read(&shape, &w, &x, rows, out);
        });
        let (low, mut y) = (values(rows * RANK, 1.0), vec![0.0; rows * WIDE]);
        let matrices = best(|_| {
            cpu.matmul(&down, &x, rows, &mut y);
            cpu.matmul(&up, &low, rows, &mut y);
            cpu.matmul(&inject, &x, rows, &mut y);
        });
        weights.fill(1e-6);
        let added = best(|_| cpu.hc_inject(&shape, &weights, &u, rows, &mut x));
        self.print("hc_read", read - matrices);
        self.print("hc_inject", added);
        Ok(())
    }

    fn moe(&mut self) -> Result<(), Error> {
        let (cpu, rows, choice) = (&mut self.cpu, self.rows, MoeChoice { experts: 512, used: 10 });
        let logits = values(rows * choice.experts, 4.0);
        let mut plan = cpu.new_plan();
        let planned = best(|_| cpu.moe_plan(&logits, rows, choice, &mut plan));
        let (start, b) = (values(rows * 640, 3.0), values(rows * 640, 1.0));
        let mut a = start.clone();
        let copy = best(|_| a.copy_from_slice(&start));
        let swiglu = best(|_| {
            a.copy_from_slice(&start);
            cpu.swiglu(&mut a, &b, rows * 640);
        });
        let part = values(rows * choice.used * H, 1.0);
        let (y, gate) = (values(rows * H, 1.0), values(rows, 1.0));
        let mut out = vec![0.0; rows * H];
        let combined = best(|_| {
            let shared = SharedExpert { y: &y, gate: &gate, width: H };
            cpu.moe_combine(&plan, &part, shared, &mut out);
        });
        self.print("moe_plan", planned);
        self.print("moe_swiglu", swiglu - copy);
        self.print("moe_combine", combined);
        Ok(())
    }

    fn gdn(&mut self) -> Result<(), Error> {
        let (cpu, rows) = (&mut self.cpu, self.rows);
        let shape =
            GdnShape { key_heads: 16, value_heads: 48, head_dim: 128, conv_kernel: 4, eps: 1e-6 };
        let taps = values(shape.channels() * 4, 0.5);
        let mut states = Vec::new();
        for _ in 0..COPIES {
            states.push(cpu.new_gdn_state(&shape, 1, 0)?);
        }
        let mut window = Window::new();
        window.push(0, 0, rows);
        let m = values(rows * shape.channels(), 1.0);
        let mut qkv = m.clone();
        let conv = best(|i| {
            cpu.gdn_conv(&shape, &taps, &window, &mut states[i % COPIES], (&m, &mut qkv));
        });
        let (alpha, beta) = (values(rows * 48, 1.0), values(rows * 48, 1.0));
        let (a, dt, norm) = (vec![-0.1; 48], values(48, 1.0), values(128, 1.0));
        let mut o = vec![0.0; rows * shape.value_dim()];
        let input = || GdnInput { qkv: &qkv, alpha: &alpha, beta: &beta, a: &a, dt: &dt };
        let scan = best(|i| {
            cpu.gdn_scan(&shape, &window, input(), &mut states[i % COPIES], &mut o);
        });
        let z = values(rows * shape.value_dim(), 2.0);
        o.copy_from_slice(&z);
        let gate = best(|_| cpu.gdn_output_gate(&shape, &norm, &z, rows, &mut o));
        self.print("gdn_conv", conv);
        self.print("gdn_scan", scan);
        self.print("gdn_output_gate", gate);
        Ok(())
    }

    fn qsa(&mut self, cached: usize, kv: KvType) -> Result<(), Error> {
        let (cpu, rows) = (&mut self.cpu, self.rows);
        let shape = QsaShape {
            heads: 24,
            kv_heads: 2,
            head_dim: 256,
            rope_dims: 64,
            rope_base: 1e7,
            rope_scaling: RopeScaling::None,
            index_heads: 4,
            index_dim: 128,
            budget: 2048,
            block: 0,
            eps: 1e-6,
        };
        let (k_norm, q_norm) = (values(256, 1.0), values(256, 1.0));
        let (k, v) = (values(cached.max(rows) * 512, 1.0), values(cached.max(rows) * 512, 1.0));
        let mut state = cpu.new_qsa_state(&shape, 1, cached + rows, kv)?;
        cpu.reserve_qsa(&shape, &mut state, 0, cached + rows)?;
        let keys = || QsaKeys { k: &k, v: &v, k_norm: &k_norm, index: None };
        let mut window = Window::new();
        window.push(0, 0, rows);
        let append = best(|_| {
            cpu.qsa_append(&shape, &window, keys(), &mut state);
        });
        let mut whole = Window::new();
        whole.push(0, 0, cached);
        cpu.qsa_append(&shape, &whole, keys(), &mut state);
        let mut window = Window::new();
        window.push(0, cached - rows, rows);
        let mut selection = cpu.new_selection();
        cpu.qsa_select(&shape, &window, None, &state, &mut selection);
        let q = values(rows * 2 * shape.query_dim(), 1.0);
        let mut o = vec![0.0; rows * shape.query_dim()];
        let attend = best(|_| {
            let query = AttendQuery { q: &q, norm: &q_norm, selection: &selection };
            cpu.qsa_attend(&shape, &window, query, &state, &mut o);
        });
        self.print(&format!("qsa_append {kv}"), append);
        self.print(&format!("qsa_attend {cached} {kv}"), attend);
        Ok(())
    }

    fn ple(&mut self) -> Result<(), Error> {
        let (cpu, rows) = (&mut self.cpu, self.rows);
        let shape = PleShape { streams: STREAMS, width: H, kernel: 4, dilation: 3, eps: 1e-6 };
        let (norm, taps) = (values(WIDE, 1.0), values(WIDE * 4, 0.5));
        let w = PleWeights { norm_key: &norm, norm_query: &norm, norm_conv: &norm, taps: &taps };
        let mut state = cpu.new_ple_state(&shape, 1, 0)?;
        let mut window = Window::new();
        window.push(0, 0, rows);
        let (key, value) = (values(rows * WIDE, 1.0), values(rows * H, 1.0));
        let mut x = values(rows * WIDE, 1.0);
        let mix = best(|_| {
            let input = PleInput { key: &key, value: &value, state: &mut state };
            cpu.ple_mix(&shape, &w, &window, input, &mut x);
        });
        self.print("ple_mix", mix);
        Ok(())
    }

    fn head(&mut self) -> Result<(), Error> {
        let logits = values(self.rows * VOCAB, 10.0);
        let us = best(|_| drop(self.cpu.argmax(&logits, self.rows, VOCAB)));
        self.print("argmax", us);
        Ok(())
    }

    fn all(&mut self) -> Result<(), Error> {
        type Family = fn(&mut Bench) -> Result<(), Error>;
        let families: [(&str, Family); 5] = [
            ("hc", Self::hc),
            ("moe", Self::moe),
            ("gdn", Self::gdn),
            ("qsa", |b| {
                let each = |kv| [256, 2048].map(|cached| (cached, kv));
                KvType::ALL.into_iter().flat_map(each).try_for_each(|(n, kv)| b.qsa(n, kv))
            }),
            ("ple", Self::ple),
        ];
        for (name, family) in families {
            if self.wants(name) {
                family(self)?;
            }
        }
        if self.rows <= 4 && self.wants("argmax") { self.head() } else { Ok(()) }
    }
}

fn main() -> Result<(), Error> {
    let only = std::env::args().nth(1).unwrap_or_default();
    for threads in [1, 2] {
        for rows in [1, 4, 128] {
            let cpu = Cpu::new(CpuOptions { threads, ..CpuOptions::default() });
            Bench { cpu, rows, only: only.clone() }.all()?;
        }
    }
    Ok(())
}
