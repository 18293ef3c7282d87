//! What is odd about a checkpoint without being wrong.

use std::collections::HashSet;

use gguf::Gguf;

use crate::checkpoint::{Checkpoint, Tensor};
use crate::role::Role;

/// Names listed before a count stands for the rest.
const MAX_LISTED: usize = 24;

impl Checkpoint {
    /// One line for each oddity of the file: gates in a format too coarse for them, tensors that
    /// are not used, an MTP block that is announced but absent.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let tensors = self.tensors();
        let coarse_gates = named(&tensors, |t| {
            matches!(t.role, Role::GdnAlpha | Role::GdnBeta) && t.ty.is_quantized()
        });
        let coarse_inject = named(&tensors, |t| {
            matches!(t.role, Role::HcAttnInject | Role::HcFfnInject) && below_q8_0(t)
        });
        let mut warnings = Vec::new();
        warn(
            &mut warnings,
            "decay and write gates are quantised, which drifts over long contexts",
            &coarse_gates,
        );
        warn(
            &mut warnings,
            "stream injections are stored below Q8_0, which blurs every layer's output",
            &coarse_inject,
        );
        let used: HashSet<_> = tensors.iter().map(|t| t.name.as_str()).collect();
        let files = [Some(&self.file), self.mtp_file.as_ref()];
        for file in files.into_iter().flatten() {
            warn(&mut warnings, "tensors that are not used", &unused(file, &used));
        }
        let announced = self.file.metadata().get_u32("qwen4exp.nextn_predict_layers");
        if self.mtp.is_none() && announced.is_ok_and(|n| n > Some(0)) {
            warnings.push("the metadata announces an MTP block, but the file has none".to_owned());
        }
        warnings
    }
}

/// Whether a format spends fewer bits on a value than Q8_0 does.
fn below_q8_0(tensor: &Tensor) -> bool {
    let q8_0 = gguf::TensorType::Q8_0;
    tensor.ty.block_bytes() * q8_0.block_elements()
        < q8_0.block_bytes() * tensor.ty.block_elements()
}

fn named<'a>(tensors: &[&'a Tensor], wanted: impl Fn(&Tensor) -> bool) -> Vec<&'a str> {
    tensors.iter().filter(|t| wanted(t)).map(|t| t.name.as_str()).collect()
}

fn unused<'a>(file: &'a Gguf, used: &HashSet<&str>) -> Vec<&'a str> {
    let names = file.tensors().iter().map(|info| info.name.as_str());
    names.filter(|name| !used.contains(name)).collect()
}

fn warn(warnings: &mut Vec<String>, what: &str, names: &[&str]) {
    if names.is_empty() {
        return;
    }
    let mut line = format!("{what}: {}", names[..names.len().min(MAX_LISTED)].join(", "));
    if names.len() > MAX_LISTED {
        line.push_str(&format!(" and {} more", names.len() - MAX_LISTED));
    }
    warnings.push(line);
}
