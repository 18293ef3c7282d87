//! How many kernels an operation starts, and that a window is one submission: what a window of few
//! rows costs is mostly that.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

use crate::testing::gpu;
use crate::{Gpu, GpuBuffer};
use gguf::TensorType;
use kernels::gdn::GdnInput;
use kernels::hc::HcRead;
use kernels::ple::PleInput;
use kernels::weight::WeightShape;
use kernels::{
    Activations, Device, Gdn, GdnShape, Hc, HcShape, HcWeights, Ple, PleShape, PleWeights, Weight,
    Window,
};

#[test]
fn a_gpu_has_every_family() {
    fn is_backend<B: kernels::Backend>() {}
    is_backend::<Gpu>();
}

fn weight(n_in: usize, n_out: usize) -> Weight {
    let shape = WeightShape { n_in, n_out, experts: 1 };
    Weight::new("w", TensorType::F32, shape, vec![0; 4 * n_in * n_out].into()).unwrap()
}

fn buffer(gpu: &mut Gpu) -> GpuBuffer {
    gpu.alloc(1 << 14).unwrap()
}

/// Kernels that were started since the last call.
fn started(gpu: &mut Gpu) -> usize {
    std::mem::take(&mut gpu.recorder.dispatched)
}

fn window(rows: usize) -> Window {
    let mut window = Window::new();
    (0..2).for_each(|slot| window.push(slot, 0, rows / 2));
    window
}

#[test]
fn the_families_start_few_kernels_and_do_not_cut_the_submission() {
    let Some(mut gpu) = gpu() else { return };
    let [a, b, c] = [(); 3].map(|()| buffer(&mut gpu));
    let [mut out, mut more] = [(); 2].map(|()| buffer(&mut gpu));
    let gdn = GdnShape { key_heads: 1, value_heads: 2, head_dim: 16, conv_kernel: 4, eps: 1e-6 };
    let mut gdn_state = gpu.new_gdn_state(&gdn, 2, 4).unwrap();
    let ple = PleShape { streams: 2, width: 32, kernel: 4, dilation: 3, eps: 1e-6 };
    let mut ple_state = gpu.new_ple_state(&ple, 2, 4).unwrap();
    let table = gpu.load_table(&weight(32, 50)).unwrap();
    let hc = HcShape { streams: 2, width: 32, eps: 1e-6 };
    let mut load = |n_in, n_out| gpu.load_matrix(&weight(n_in, n_out), Activations::F32).unwrap();
    let (down, up, inject) = (load(64, 32), load(32, 64), load(64, 2));
    let hc_weights = HcWeights { norm: &a, down: &down, up: &up, inject: Some(&inject) };
    // Decodes the inject matrix, once and for all.
    gpu.hc_read(&hc, &hc_weights, &b, 2, HcRead { u: &mut out, weights: &mut more });
    started(&mut gpu);
    let submissions = gpu.recorder.submissions;
    for rows in [2, 4, 30, 64] {
        let window = window(rows);
        gpu.gdn_conv(&gdn, &a, &window, &mut gdn_state, (&b, &mut out));
        assert_eq!(started(&mut gpu), 1);
        let input = GdnInput { qkv: &out, alpha: &a, beta: &b, a: &a, dt: &b };
        gpu.gdn_scan(&gdn, &window, input, &mut gdn_state, &mut more);
        assert_eq!(started(&mut gpu), 1);
        gpu.gdn_output_gate(&gdn, &a, &b, rows, &mut more);
        assert_eq!(started(&mut gpu), 1);

        let read = HcRead { u: &mut out, weights: &mut more };
        gpu.hc_read(&hc, &hc_weights, &b, rows, read);
        assert_eq!(started(&mut gpu), if rows < 32 { 2 } else { 5 });
        gpu.hc_inject(&hc, &more, &b, rows, &mut out);
        assert_eq!(started(&mut gpu), 1);

        gpu.ple_gather(&table, &[7, 3, 49], &mut out);
        let w = PleWeights { norm_key: &a, norm_query: &b, norm_conv: &c, taps: &a };
        let input = PleInput { key: &a, value: &b, state: &mut ple_state };
        gpu.ple_mix(&ple, &w, &window, input, &mut out);
        assert_eq!(started(&mut gpu), 2);
    }
    // None but those that hand over what is much.
    assert!(gpu.recorder.submissions <= submissions + 1, "{}", gpu.recorder.submissions);
    gpu.download(&out, &mut [0.0]).unwrap();
}
