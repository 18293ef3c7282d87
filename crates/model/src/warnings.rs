//! What is odd about a checkpoint without being wrong.

use std::collections::HashSet;

use gguf::Gguf;

use crate::checkpoint::{Checkpoint, Mtp, Tensor};
use crate::role::Role;

/// Names listed before a count stands for the rest.
const MAX_LISTED: usize = 24;

impl Checkpoint {
    /// One line for each oddity of the file: gates in a format too coarse for them, tensors that
    /// are not used, an MTP block that is announced but absent.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let found = [
            self.coarse_gates(),
            self.coarse_injections(),
            self.unused_in_model_file(),
            self.unused_in_mtp_file(),
            self.absent_mtp(),
        ];
        found.into_iter().flatten().collect()
    }

    fn coarse_gates(&self) -> Option<String> {
        let is_gate = |t: &Tensor| matches!(t.role, Role::GdnAlpha | Role::GdnBeta);
        let found = self.named(|t| is_gate(t) && t.ty.is_quantized());
        line("decay and write gates are quantised, which drifts over long contexts", &found)
    }

    fn coarse_injections(&self) -> Option<String> {
        let is_inject = |t: &Tensor| matches!(t.role, Role::HcAttnInject | Role::HcFfnInject);
        let found = self.named(|t| is_inject(t) && below_q8_0(t));
        line("stream injections are below Q8_0, which blurs the output of their layers", &found)
    }

    fn unused_in_model_file(&self) -> Option<String> {
        let own = if self.mtp_file.is_some() { self.trunk_tensors() } else { self.tensors() };
        line("tensors that are not used", &unused(&self.file, &own))
    }

    fn unused_in_mtp_file(&self) -> Option<String> {
        let own: Vec<_> = self.mtp.iter().flat_map(Mtp::tensors).collect();
        let found = unused(self.mtp_file.as_ref()?, &own);
        line("tensors of the MTP file that are not used", &found)
    }

    fn absent_mtp(&self) -> Option<String> {
        let announced = self.file.metadata().get_u32("qwen4exp.nextn_predict_layers");
        let absent = self.mtp.is_none() && announced.is_ok_and(|n| n > Some(0));
        absent.then(|| "the metadata announces an MTP block, but the file has none".to_owned())
    }

    fn named(&self, wanted: impl Fn(&Tensor) -> bool) -> Vec<&str> {
        let tensors = self.tensors().into_iter().filter(|t| wanted(t));
        tensors.map(|t| t.name.as_str()).collect()
    }
}

/// Whether a format spends fewer bits on a value than Q8_0 does.
fn below_q8_0(tensor: &Tensor) -> bool {
    let q8_0 = gguf::TensorType::Q8_0;
    tensor.ty.block_bytes() * q8_0.block_elements()
        < q8_0.block_bytes() * tensor.ty.block_elements()
}

fn unused<'a>(file: &'a Gguf, used: &[&Tensor]) -> Vec<&'a str> {
    let used: HashSet<_> = used.iter().map(|t| t.name.as_str()).collect();
    let names = file.tensors().iter().map(|info| info.name.as_str());
    names.filter(|name| !used.contains(name)).collect()
}

/// A warning about some tensors; None without any.
fn line(what: &str, names: &[&str]) -> Option<String> {
    let listed = names.get(..MAX_LISTED).unwrap_or(names);
    let rest = match names.len() - listed.len() {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    (!names.is_empty()).then(|| format!("{what}: {}{rest}", listed.join(", ")))
}
