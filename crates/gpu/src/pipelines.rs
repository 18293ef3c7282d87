//! Compiled kernels and bind groups, made when first needed and kept.

use crate::NAME;
use crate::buffer::{Bindings, SliceId};
use crate::fault::Faults;
use crate::kernel::Kernel;
use crate::shader::{Access, Shader};
use kernels::Error;
use rustc_hash::FxHashMap;
use std::fmt::Debug;
use std::sync::Arc;

/// What makes pipelines and bind groups on one of the two routes.
pub(crate) trait Maker: Debug {
    /// A kernel as the driver compiled it.
    type Pipeline: Debug;
    /// Buffers, bound.
    type Group: Debug;

    /// Compiles a kernel.
    ///
    /// # Errors
    /// [`Error::KernelBuild`] with the reason.
    fn compile(&self, shader: &Shader) -> Result<Self::Pipeline, Error>;

    /// Binds buffers for a kernel.
    ///
    /// # Errors
    /// Whatever the device says.
    fn bind(
        &mut self,
        compiled: &Arc<Compiled<Self::Pipeline>>,
        buffers: Bindings<'_>,
    ) -> Result<Self::Group, Error>;
}

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct Compiled<P> {
    name: String,
    pub(crate) pipeline: P,
    /// Which bindings it writes.
    pub(crate) writes: Vec<bool>,
}

/// A kernel that the driver refused.
#[derive(Debug)]
struct Refused {
    kernel: String,
    why: String,
}

/// A call's kernel with its buffers.
#[derive(Debug)]
pub(crate) struct Bound<M: Maker> {
    kernel: Kernel,
    ids: Vec<SliceId>,
    pub(crate) compiled: Arc<Compiled<M::Pipeline>>,
    pub(crate) group: Arc<M::Group>,
    /// The place of the call that came after it last time.
    after: usize,
}

impl<M: Maker> Bound<M> {
    fn is(&self, kernel: Kernel, buffers: Bindings<'_>) -> bool {
        self.ids.len() == buffers.len()
            && self.ids.iter().zip(buffers.iter()).all(|(id, slice)| *id == slice.id())
            && self.kernel == kernel
    }
}

/// What tells calls apart: the kernel's number and the buffers.
type Key = (u32, Vec<SliceId>);

/// Everything that was compiled and bound.
///
/// A window makes the calls of one before, in the same order, so a call is most often the one that
/// came after its predecessor last time; only where it is not the tables are looked at.
#[derive(Debug)]
pub(crate) struct Pipelines<M: Maker> {
    pub(crate) maker: M,
    faults: Faults,
    /// A kernel's number, and the kernel or why the driver refused it.
    compiled: FxHashMap<Kernel, (u32, CompileResult<M>)>,
    places: FxHashMap<Key, usize>,
    bound: Vec<Bound<M>>,
    /// The place of the last call.
    last: usize,
}

type CompileResult<M> = Result<Arc<Compiled<<M as Maker>::Pipeline>>, Refused>;

/// Bind groups that are kept: places of host inputs differ with every length of a window.
const MOST_GROUPS: usize = 32768;

impl<M: Maker> Pipelines<M> {
    pub(crate) fn new(maker: M, faults: Faults) -> Self {
        let (compiled, places) = (FxHashMap::default(), FxHashMap::default());
        Self { maker, faults, compiled, places, bound: Vec::new(), last: 0 }
    }

    /// The kernel with these buffers bound; `None` if that could not be made, which is kept as a
    /// fault every time.
    pub(crate) fn get(&mut self, kernel: Kernel, buffers: Bindings<'_>) -> Option<&Bound<M>> {
        let expected = self.bound.get(self.last).map_or(0, |last| last.after);
        let place = match self.bound.get(expected) {
            Some(bound) if bound.is(kernel, buffers) => expected,
            _ => {
                let place = self.look_up(kernel, buffers)?;
                if let Some(last) = self.bound.get_mut(self.last) {
                    last.after = place;
                }
                place
            }
        };
        self.last = place;
        self.bound.get(place)
    }

    fn look_up(&mut self, kernel: Kernel, buffers: Bindings<'_>) -> Option<usize> {
        let number = self.compiled.len() as u32;
        let maker = &self.maker;
        let (number, compiled) = self.compiled.entry(kernel).or_insert_with(|| {
            let shader = kernel.shader();
            (number, compile(maker, &shader))
        });
        let compiled = match compiled {
            Ok(compiled) => compiled.clone(),
            // Said each time: what it should have computed is missing each time.
            Err(Refused { kernel, why }) => {
                let (kernel, why) = (kernel.clone(), why.clone());
                self.faults.add(Error::KernelBuild { device: NAME, kernel, why });
                return None;
            }
        };
        let key = (*number, buffers.iter().map(|slice| slice.id()).collect());
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        assert_eq!(buffers.len(), compiled.writes.len(), "buffers of {}", compiled.name);
        let bound = self.maker.bind(&compiled, buffers);
        let group = Arc::new(bound.map_err(|error| self.faults.add(error)).ok()?);
        if self.bound.len() >= MOST_GROUPS {
            self.places.clear();
            self.bound.clear();
        }
        let place = self.bound.len();
        self.bound.push(Bound { kernel, ids: key.1.clone(), compiled, group, after: place + 1 });
        self.places.insert(key, place);
        Some(place)
    }

    /// The kernel's name, without making its text again once it is compiled.
    pub(crate) fn name(&self, kernel: Kernel) -> String {
        match self.compiled.get(&kernel) {
            Some((_, Ok(compiled))) => compiled.name.clone(),
            _ => kernel.shader().name,
        }
    }

    /// Compiles a shader that belongs to no kernel.
    #[cfg(test)]
    pub(crate) fn compile(&self, shader: &Shader) -> Result<(), Error> {
        let refused = |Refused { kernel, why }| Error::KernelBuild { device: NAME, kernel, why };
        compile(&self.maker, shader).map(|_| ()).map_err(refused)
    }

    /// Number of bind groups that are kept.
    #[cfg(test)]
    pub(crate) fn bound(&self) -> usize {
        self.bound.len()
    }

    /// Forgets what is bound to these buffers, which are no more: it would keep their memory.
    pub(crate) fn forget(&mut self, buffers: &[u64]) {
        let gone = |ids: &[SliceId]| ids.iter().any(|id| buffers.contains(&id.0));
        if buffers.is_empty() || !self.bound.iter().any(|bound| gone(&bound.ids)) {
            return;
        }
        self.bound.retain(|bound| !gone(&bound.ids));
        // What stays has other places now; what comes after what is found out again.
        self.places.clear();
        for (place, bound) in self.bound.iter_mut().enumerate() {
            bound.after = place + 1;
            if let Some((number, _)) = self.compiled.get(&bound.kernel) {
                self.places.insert((*number, bound.ids.clone()), place);
            }
        }
        self.last = 0;
    }
}

fn compile<M: Maker>(maker: &M, shader: &Shader) -> CompileResult<M> {
    let writes = shader.bindings.iter().map(|b| b.access == Access::Write).collect();
    let name = shader.name.clone();
    match maker.compile(shader) {
        Ok(pipeline) => Ok(Arc::new(Compiled { name, pipeline, writes })),
        Err(Error::KernelBuild { why, .. }) => Err(Refused { kernel: name, why }),
        Err(error) => Err(Refused { kernel: name, why: error.to_string() }),
    }
}

/// The layout of a kernel's bindings.
pub(crate) fn layout_entries(shader: &Shader) -> Vec<wgpu::BindGroupLayoutEntry> {
    let entry = |(index, access)| wgpu::BindGroupLayoutEntry {
        binding: index,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: access == Access::Read },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    (0..).zip(shader.bindings.iter().map(|binding| binding.access)).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use crate::shader::write;
    use crate::testing::gpu_on;

    #[test]
    fn a_shader_that_the_driver_refuses_is_named() {
        for route in [Route::Direct, Route::Wgpu] {
            let Some(gpu) = gpu_on(route) else { return };
            let refused = |text: &str| {
                let (name, bindings) = ("broken L=4".to_owned(), vec![write("y", "f32")]);
                let shader = Shader { name, bindings, params: 0, text: text.to_owned() };
                let refused = gpu.recorder.compile(&shader);
                let Err(error) = refused else { panic!("{route:?} takes {text}") };
                assert!(matches!(&error, Error::KernelBuild { .. }), "{error}");
                error.to_string()
            };
            let text = refused("@compute @workgroup_size(1) fn main() { y[0] = nothing; }");
            assert!(text.contains("broken L=4") && text.contains("nothing"), "{text}");
            // Sound, and more than any device has.
            refused("@compute @workgroup_size(1, 1, 60000) fn main() {}");
            refused("@compute @workgroup_size(1) fn other() {}");
            if route == Route::Direct {
                // wgpu leaves it to the driver.
                let text = refused(
                    "var<workgroup> all: array<u32, 100000000>;
                    @compute @workgroup_size(1) fn main() { all[0] = 1u; }",
                );
                assert!(text.contains("400000000 bytes of workgroup memory"), "{text}");
            }
            assert!(gpu.recorder.faults.take().is_ok());
        }
    }
}
