use crate::elementwise::Elementwise;
use crate::fault::fault;
use crate::testing::gpu;
use crate::{Gpu, GpuBuffer, GpuOptions};
use kernels::{Device, Error};

fn words(values: &[f32]) -> &[u32] {
    bytemuck::cast_slice(values)
}

fn buffer(gpu: &mut Gpu, values: &[f32]) -> GpuBuffer {
    let buffer = gpu.recorder.allocator.storage(values.len(), "a test").unwrap();
    gpu.recorder.upload(words(values), &buffer, 0);
    buffer
}

fn values(gpu: &mut Gpu, buffer: &GpuBuffer) -> Result<Vec<f32>, Error> {
    let mut out = vec![0; buffer.len()];
    gpu.recorder.download(buffer, &mut out)?;
    Ok(out.into_iter().map(f32::from_bits).collect())
}

/// `out[first..] = x[rows]`, rows of `width`.
fn gather(gpu: &mut Gpu, x: &GpuBuffer, rows: &[u32], out: (&GpuBuffer, usize), width: usize) {
    let buffers = [out.0.all(), x.all()];
    let shape = (rows.len(), width, out.1);
    gpu.elementwise(Elementwise::GatherRows, &buffers, Some(rows), shape);
}

#[test]
fn bits_survive_a_round_trip() {
    let Some(mut gpu) = gpu() else { return };
    let bits = [0x7FC0_1AB5, 0xFF80_0000, 1, 0x8000_0000, 0x3F80_0001];
    let x = buffer(&mut gpu, &bits.map(f32::from_bits));
    let found = values(&mut gpu, &x).unwrap();
    assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), bits);
    // More than one chunk of an upload, and more than the first download had room for.
    let many: Vec<f32> = (0..(10 << 20)).map(|i| i as f32).collect();
    let x = buffer(&mut gpu, &many);
    assert!(values(&mut gpu, &x).unwrap() == many);
    let fresh = gpu.recorder.allocator.storage(1000, "a test").unwrap();
    assert_eq!(values(&mut gpu, &fresh).unwrap(), [0.0; 1000]);
}

#[test]
fn kernels_copies_and_uploads_happen_in_the_order_of_the_calls() {
    let Some(mut gpu) = gpu() else { return };
    let x = buffer(&mut gpu, &[1.0, 2.0, 3.0, 4.0]);
    let y = buffer(&mut gpu, &[0.0; 4]);
    let z = buffer(&mut gpu, &[0.0; 6]);
    gather(&mut gpu, &x, &[1, 0], (&y, 0), 2);
    gather(&mut gpu, &y, &[1], (&z, 0), 2);
    gpu.recorder.upload(words(&[9.0, 8.0]), &y, 2);
    gather(&mut gpu, &y, &[1, 0], (&z, 1), 2);
    gpu.recorder.clear(&y, 0, 1);
    gpu.recorder.copy((&y, 0), (&z, 5), 1);
    assert_eq!(values(&mut gpu, &z).unwrap(), [1.0, 2.0, 9.0, 8.0, 3.0, 0.0]);
    assert_eq!(values(&mut gpu, &y).unwrap(), [0.0, 4.0, 9.0, 8.0]);
}

#[test]
fn host_rows_have_a_place_of_their_own_however_many() {
    let Some(mut gpu) = gpu() else { return };
    let x = buffer(&mut gpu, &(0..100).map(|i| i as f32).collect::<Vec<_>>());
    let y = buffer(&mut gpu, &[-1.0; 3000]);
    for i in 0..3000 {
        gather(&mut gpu, &x, &[i % 100], (&y, i as usize), 1);
    }
    let found = values(&mut gpu, &y).unwrap();
    assert!(found.iter().enumerate().all(|(i, &y)| y == (i % 100) as f32));
    let rows: Vec<u32> = (0..100_000).map(|i| i * 7 % 100).collect();
    let y = gpu.recorder.allocator.storage(rows.len(), "a test").unwrap();
    gather(&mut gpu, &x, &rows, (&y, 0), 1);
    let found = values(&mut gpu, &y).unwrap();
    assert!(found.iter().zip(&rows).all(|(&y, &row)| y == row as f32));
}

#[test]
fn dropped_buffers_are_forgotten() {
    let Some(mut gpu) = gpu() else { return };
    let x = buffer(&mut gpu, &[1.0, 2.0]);
    for i in 0..50 {
        let y = buffer(&mut gpu, &[0.0; 2]);
        gather(&mut gpu, &x, &[i % 2], (&y, 0), 1);
        assert_eq!(values(&mut gpu, &y).unwrap()[0], (i % 2 + 1) as f32);
    }
    gpu.recorder.submit();
    assert!(gpu.recorder.bound() <= 1, "{} bind groups are kept", gpu.recorder.bound());
}

#[test]
fn fault_134_a_failed_operation_is_reported_by_the_next_download_and_the_device_lives() {
    let Some(mut gpu) = gpu() else { return };
    let x = buffer(&mut gpu, &[1.0, 2.0]);
    gpu.recorder.faults.add(fault("the driver said no".into()));
    let error = values(&mut gpu, &x).unwrap_err();
    assert_eq!(error.to_string(), "the gpu backend failed: the driver said no");
    assert_eq!(values(&mut gpu, &x).unwrap(), [1.0, 2.0]);
    // A real one: a copy from a buffer that must not be copied from.
    let bad = gpu.recorder.allocator.readable(2).unwrap();
    gpu.recorder.copy((&bad, 0), (&x, 0), 2);
    let error = values(&mut gpu, &x).unwrap_err();
    assert!(matches!(error, Error::DeviceFault { .. }), "{error}");
    assert_eq!(values(&mut gpu, &x).unwrap(), [1.0, 2.0]);
}

#[test]
fn a_lost_device_says_so_and_the_process_lives() {
    let Some(mut gpu) = gpu() else { return };
    let x = buffer(&mut gpu, &[1.0, 2.0]);
    gather(&mut gpu, &x, &[1], (&x, 0), 1);
    gpu.recorder.destroy();
    for _ in 0..2 {
        let error = values(&mut gpu, &x).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    }
}

#[test]
fn more_memory_than_there_is_is_refused() {
    let Some(gpu) = gpu() else { return };
    for len in [1 << 40, usize::MAX] {
        let error = gpu.recorder.allocator.storage(len, "activations").unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { what: "activations", .. }), "{error}");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_named_with_those_that_are() {
    let options = GpuOptions { adapter: Some("no such GPU".into()), ..Default::default() };
    let error = Gpu::new(&options).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("has another name") || text.contains("no driver"), "{text}");
}

/// A server may move it to the thread that computes.
#[test]
fn a_gpu_can_be_sent_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Gpu>();
}

#[test]
fn memory_counts_while_somebody_holds_it() {
    let Some(mut gpu) = gpu() else { return };
    let used = |gpu: &Gpu| gpu.memory_used().unwrap();
    let before = used(&gpu);
    let [a, b] = [1 << 20, 3].map(|len| gpu.alloc(len).unwrap());
    // The smallest piece has 256 bytes.
    assert_eq!(used(&gpu) - before, (4 << 20) + 256);
    drop(a);
    assert_eq!(used(&gpu) - before, 256);
    drop(b);
    assert_eq!(used(&gpu), before);
}
