//! Every kernel of the backend, as a value that is cheap to compare: what pipelines are kept by.

use crate::best::BestStep;
use crate::combine::Combine;
use crate::decode::DecodeRows;
use crate::elementwise::Elementwise;
use crate::gdn::GdnKernel;
use crate::hc_kernels::HcKernel;
use crate::head::argmax_shader;
use crate::mtp::mtp_input_shader;
use crate::plan_kernels::PlanStep;
use crate::ple::PleKernel;
use crate::product::{ExpertSum, Product};
use crate::qsa::QsaKernel;
use crate::shader::Shader;

/// A kernel with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    /// Value by value.
    Elementwise(Elementwise),
    /// Matrix times rows.
    Product(Product),
    /// Weight rows as f32.
    DecodeRows(DecodeRows),
    /// Grouping by expert.
    Plan(PlanStep),
    /// The sum of a row's experts.
    Combine(Combine),
    /// The same with the products that it adds up.
    ExpertSum(ExpertSum),
    /// The best token of each row.
    Argmax,
    /// The best tokens of each row.
    Best(BestStep),
    /// Gated DeltaNet.
    Gdn(GdnKernel),
    /// Hyper-connections.
    Hc(HcKernel),
    /// Input of the drafting block.
    MtpInput,
    /// Sparse attention.
    Qsa(QsaKernel),
    /// N-gram features.
    Ple(PleKernel),
}

impl Kernel {
    /// Its shader.
    pub(crate) fn shader(self) -> Shader {
        match self {
            Self::Elementwise(kernel) => kernel.shader(),
            Self::Product(kernel) => kernel.shader(),
            Self::DecodeRows(kernel) => kernel.shader(),
            Self::Plan(step) => step.shader(),
            Self::Combine(kernel) => kernel.shader(),
            Self::ExpertSum(kernel) => kernel.shader(),
            Self::Argmax => argmax_shader(),
            Self::Best(step) => step.shader(),
            Self::Gdn(kernel) => kernel.shader(),
            Self::Hc(kernel) => kernel.shader(),
            Self::MtpInput => mtp_input_shader(),
            Self::Qsa(kernel) => kernel.shader(),
            Self::Ple(kernel) => kernel.shader(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::product::{Conv, Path, Product, RowsOf, Segment};
    use crate::tile::{Tile, Width};
    use naga::back::{hlsl, msl};
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    use std::collections::HashSet;

    /// All kernels, with every value of the parameters that changes their text; numbers alone are
    /// not run through.
    fn all() -> Vec<Kernel> {
        let mut all: Vec<_> = Elementwise::ALL.iter().map(|&k| Kernel::Elementwise(k)).collect();
        all.extend(
            [PlanStep::Few(300), PlanStep::FewBeside(512), PlanStep::FewBeside(2048)]
                .map(Kernel::Plan),
        );
        all.extend([PlanStep::Choose(512), PlanStep::Group(512)].map(Kernel::Plan));
        all.extend([0, 4].map(|streams| Kernel::Combine(Combine { used: 10, streams })));
        all.extend(GdnKernel::some().map(Kernel::Gdn));
        all.extend(HcKernel::some().into_iter().map(Kernel::Hc));
        all.extend([Kernel::Argmax, Kernel::MtpInput]);
        all.extend([BestStep::Maxima, BestStep::List].map(Kernel::Best));
        all.extend(QsaKernel::samples().into_iter().map(Kernel::Qsa));
        all.extend(
            [PleKernel::Gate, PleKernel::Conv(4, 3), PleKernel::Conv(1, 2)].map(Kernel::Ple),
        );
        all.extend(Format::ALL.map(|format| Kernel::DecodeRows(DecodeRows(format))));
        let tile = Tile { lanes: 16, rows: 2, subgroups: 4, splits: 2 };
        for format in Format::ALL {
            for activations in [Path::Float, Path::Int8] {
                if activations == Path::Int8 && !format.layout().values.has_codes() {
                    continue;
                }
                for rows in [RowsOf::Window, RowsOf::Experts] {
                    for width in [Width::Few(3), Width::Many(16), Width::Many(64)] {
                        let segment = Segment { format, activations, tile };
                        let segments = [Some(segment), None, None, None, None];
                        all.push(Kernel::Product(Product {
                            rows,
                            width,
                            segments,
                            streams: 0,
                            conv: None,
                        }));
                    }
                }
            }
        }
        let segment = |format, activations| Some(Segment { format, activations, tile });
        let segments = [
            segment(Format::Iq4Xs, Path::Int8),
            segment(Format::F32, Path::Float),
            segment(Format::Iq2S, Path::Int8),
            segment(Format::Iq4Nl, Path::Int8),
            segment(Format::Q6K, Path::Float),
        ];
        for rows in [RowsOf::Window, RowsOf::Experts] {
            let width = Width::Few(4);
            all.push(Kernel::Product(Product { rows, width, segments, streams: 0, conv: None }));
        }
        let segments = [segment(Format::Iq4Xs, Path::Int8), None, None, None, None];
        let (rows, width) = (RowsOf::Window, Width::Few(1));
        all.push(Kernel::Product(Product { rows, width, segments, streams: 4, conv: None }));
        let conv = Some(Conv { segment: 1, taps: 4, slot_len: 1000 });
        let segments = [segment(Format::Iq4Xs, Path::Int8), segment(Format::Q6K, Path::Int8)];
        for (routed, shared, streams) in [
            (segment(Format::Q2_0, Path::Int8), segment(Format::Q8_0, Path::Int8), 4),
            (segment(Format::Iq4Nl, Path::Int8), segment(Format::Iq4Nl, Path::Int8), 0),
            (segment(Format::F32, Path::Float), segment(Format::Iq2S, Path::Float), 4),
        ] {
            let both = [routed, shared].map(|segment| segment.unwrap_or_else(|| unreachable!()));
            let kernel = ExpertSum { segments: both, units: [20, 3], used: 10, streams };
            all.push(Kernel::ExpertSum(kernel));
        }
        let segments = [segments[0], segments[1], None, None, None];
        all.push(Kernel::Product(Product { rows, width, segments, streams: 0, conv }));
        all
    }

    /// The text of every shader as Metal and DirectX get it: no such device is needed to see that
    /// it can be made.
    #[test]
    fn every_shader_becomes_msl_and_hlsl() {
        for shader in all().into_iter().map(Kernel::shader) {
            let name = &shader.name;
            let module = naga::front::wgsl::parse_str(&shader.text)
                .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&shader.text)));
            let info = Validator::new(ValidationFlags::all(), Capabilities::all())
                .validate(&module)
                .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&shader.text)));
            let options = msl::Options {
                lang_version: (2, 4),
                fake_missing_bindings: true,
                ..Default::default()
            };
            msl::write_string(&module, &info, &options, &Default::default())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let options = hlsl::Options {
                shader_model: hlsl::ShaderModel::V6_4,
                fake_missing_bindings: true,
                immediates_target: Some(hlsl::BindTarget::default()),
                ..Default::default()
            };
            let mut text = String::new();
            hlsl::Writer::new(&mut text, &options, &Default::default())
                .write(&module, &info, None)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }

    /// Those of attention and of reads of the streams have tests of their own; how much products
    /// take is known before they are called.
    #[test]
    fn the_others_keep_to_the_workgroup_memory_of_every_device() {
        for kernel in all() {
            if matches!(kernel, Kernel::Qsa(_) | Kernel::Hc(_) | Kernel::Product(_)) {
                continue;
            }
            let shader = kernel.shader();
            let module = naga::front::wgsl::parse_str(&shader.text).expect("a shader");
            let globals = module.global_variables.iter().map(|(_, variable)| variable);
            let shared = globals.filter(|variable| variable.space == naga::AddressSpace::WorkGroup);
            let bytes = |ty| module.types[ty].inner.size(module.to_ctx());
            let taken: u32 = shared.map(|variable| bytes(variable.ty)).sum();
            assert!(taken <= 16 << 10, "{taken} bytes: {}", shader.name);
        }
    }

    #[test]
    fn names_tell_kernels_apart() {
        let names: HashSet<_> = all().into_iter().map(|k| k.shader().name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn a_product_knows_how_many_buffers_its_text_declares() {
        for kernel in all() {
            if let Kernel::Product(product) = kernel {
                let shader = product.shader();
                assert_eq!(product.bindings(), shader.bindings.len(), "{}", shader.name);
            }
        }
    }
}
