//! Which role of tensor gets which format: `dense=q8_0`, `ffn_down_exps=iq4_nl`.

use std::str::FromStr;

use gguf::TensorType;
use model::{Accepts, Role};

/// Roles that go together under one name.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, for help.
    pub what: &'static str,
    roles: &'static [Role],
}

const ATTENTION: &[Role] = &[Role::AttnQ, Role::AttnK, Role::AttnV, Role::AttnOutput];
const GDN: &[Role] = &[Role::GdnQkv, Role::GdnGate, Role::GdnOut];
const SHARED: &[Role] = &[Role::SharedGate, Role::SharedUp, Role::SharedDown];
const INDEXER: &[Role] = &[Role::IndexQ, Role::IndexK];
const PLE: &[Role] = &[Role::PleKey, Role::PleValue];
const EXPERTS: &[Role] = &[Role::GateExps, Role::UpExps, Role::GateUpExps, Role::DownExps];
const EMBEDDING: &[Role] = &[Role::TokenEmbd, Role::MtpEmbedTokens];
const HEAD: &[Role] = &[Role::Output, Role::MtpHeadOut];
const INJECT: &[Role] = &[Role::HcAttnInject, Role::HcFfnInject];
const GATES: &[Role] = &[Role::GdnAlpha, Role::GdnBeta];
const ROUTER: &[Role] = &[Role::Router, Role::SharedGateInp];
#[rustfmt::skip]
const HC: &[Role] = &[
    Role::HcAttnDown, Role::HcAttnUp, Role::HcFfnDown, Role::HcFfnUp,
    Role::OutputHcDown, Role::OutputHcUp, Role::MtpHeadDown, Role::MtpHeadUp,
];
#[rustfmt::skip]
const DENSE: &[Role] = &[
    Role::AttnQ, Role::AttnK, Role::AttnV, Role::AttnOutput, Role::GdnQkv, Role::GdnGate,
    Role::GdnOut, Role::SharedGate, Role::SharedUp, Role::SharedDown, Role::IndexQ, Role::IndexK,
    Role::PleKey, Role::PleValue, Role::MtpEhProj,
];
#[rustfmt::skip]
const MATRICES: &[Role] = &[
    Role::AttnQ, Role::AttnK, Role::AttnV, Role::AttnOutput, Role::GdnQkv, Role::GdnGate,
    Role::GdnOut, Role::SharedGate, Role::SharedUp, Role::SharedDown, Role::IndexQ, Role::IndexK,
    Role::PleKey, Role::PleValue, Role::MtpEhProj, Role::GateExps, Role::UpExps, Role::GateUpExps,
    Role::DownExps, Role::TokenEmbd, Role::MtpEmbedTokens, Role::Output, Role::MtpHeadOut,
    Role::HcAttnDown, Role::HcAttnUp, Role::HcFfnDown, Role::HcFfnUp, Role::OutputHcDown,
    Role::OutputHcUp, Role::MtpHeadDown, Role::MtpHeadUp, Role::NgramTable,
];

const fn group(name: &'static str, what: &'static str, roles: &'static [Role]) -> Group {
    Group { name, what, roles }
}

/// All groups, the widest first.
pub const GROUPS: &[Group] = &[
    group("matrices", "every matrix but router, gates and inject", MATRICES),
    group("dense", "attention, gdn, shared, indexer, ple, and the MTP block's input", DENSE),
    group("attention", "projections of the attention layers", ATTENTION),
    group("gdn", "large projections of the Gated DeltaNet layers", GDN),
    group("shared", "shared experts", SHARED),
    group("indexer", "block selection of sparse attention", INDEXER),
    group("ple", "projections of the n-gram features", PLE),
    group("experts", "routed experts", EXPERTS),
    group("hc", "mixers of the hyper-connections", HC),
    group("embedding", "token embedding", EMBEDDING),
    group("head", "language-model head", HEAD),
    group("table", "n-gram table", &[Role::NgramTable]),
    group("router", "routers, and the shared experts' gates", ROUTER),
    group("inject", "injections of the hyper-connections (keep at q8_0 or above)", INJECT),
    group("gates", "decay and write gates, ssm_alpha and ssm_beta (keep as f32)", GATES),
];

impl Group {
    /// The roles that the name stands for.
    pub fn roles(&self) -> &'static [Role] {
        self.roles
    }
}

/// The names of all roles that can be chosen one by one.
pub fn single_roles() -> impl Iterator<Item = &'static str> {
    Role::all().map(Role::short_name)
}

/// In place of a format: as it is, whatever was chosen before.
const KEEP: &str = "keep";

/// A format for a role or a group of roles, written `ROLE=FORMAT` or `ROLE=keep`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    name: String,
    roles: Vec<Role>,
    /// None to keep what is there.
    ty: Option<TensorType>,
}

/// Why a text is no [`Choice`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Not of the form `ROLE=FORMAT`.
    #[error("{text:?} should be ROLE=FORMAT, as in dense=q8_0")]
    Shape {
        /// The text.
        text: String,
    },
    /// Neither a role nor a group.
    #[error("no role or group of roles is called {name:?}; groups are {}", group_names())]
    Role {
        /// The name.
        name: String,
    },
    /// No format, or one that cannot be written.
    #[error("no weights can be written as {name:?}; formats are {}, and keep", encodable_names())]
    Format {
        /// The name.
        name: String,
    },
    /// Vectors and convolution taps are never quantised.
    #[error("{role} holds vectors, which cannot be {ty}; choose f32, f16 or bf16")]
    Vectors {
        /// The role.
        role: &'static str,
        /// The format asked for.
        ty: TensorType,
    },
}

fn group_names() -> String {
    GROUPS.iter().map(|group| group.name).collect::<Vec<_>>().join(", ")
}

/// The names of all formats that can be written, in lower case.
pub fn encodable_names() -> String {
    let names = quant::ENCODABLE.iter().map(|ty| ty.name().to_lowercase());
    names.collect::<Vec<_>>().join(", ")
}

impl Choice {
    /// The role or group as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format; None to keep what is there.
    pub fn ty(&self) -> Option<TensorType> {
        self.ty
    }

    /// Whether it is about this role.
    pub fn covers(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Choice, ChoiceError> {
        let split = text.split_once('=').map(|(name, ty)| (name.trim(), ty.trim()));
        let Some((name, format)) = split.filter(|(name, ty)| !name.is_empty() && !ty.is_empty())
        else {
            return Err(ChoiceError::Shape { text: text.to_owned() });
        };
        let ty = if format == KEEP { None } else { Some(format_of(format)?) };
        let roles = match GROUPS.iter().find(|group| group.name == name) {
            Some(group) => group.roles.to_vec(),
            None => Role::all().filter(|role| role.short_name() == name).collect(),
        };
        if roles.is_empty() {
            return Err(ChoiceError::Role { name: name.to_owned() });
        }
        let vectors = roles.iter().find(|role| role.accepts() == Accepts::Floats);
        if let (Some(role), Some(ty)) = (vectors, ty.filter(|ty| ty.is_quantized())) {
            return Err(ChoiceError::Vectors { role: role.short_name(), ty });
        }
        Ok(Choice { name: name.to_owned(), roles, ty })
    }
}

fn format_of(name: &str) -> Result<TensorType, ChoiceError> {
    let found = TensorType::from_name(name).filter(|ty| quant::ENCODABLE.contains(ty));
    found.ok_or_else(|| ChoiceError::Format { name: name.to_owned() })
}

/// Choices in order: where several cover a role, the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    choices: Vec<Choice>,
}

impl Recipe {
    /// From the choices as they were given.
    pub fn new(choices: Vec<Choice>) -> Recipe {
        Recipe { choices }
    }

    /// The choices as they were given.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// The format for a role; None if nothing was chosen for it, or to keep what is there.
    pub fn format(&self, role: Role) -> Option<TensorType> {
        self.choices.iter().rev().find(|choice| choice.covers(role)).and_then(Choice::ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(choices: &[&str]) -> Recipe {
        Recipe::new(choices.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn the_last_choice_counts() {
        let found = recipe(&["matrices=q4_k", "ffn_down_exps=IQ4_NL", "attention = q8_0"]);
        assert_eq!(found.format(Role::GateExps), Some(TensorType::Q4_K));
        assert_eq!(found.format(Role::DownExps), Some(TensorType::IQ4_NL));
        assert_eq!(found.format(Role::AttnK), Some(TensorType::Q8_0));
        assert_eq!(found.format(Role::Router), None);
        let kept = recipe(&["experts=q4_k", "ffn_down_exps=keep"]);
        assert_eq!(kept.format(Role::DownExps), None);
        assert_eq!(kept.format(Role::UpExps), Some(TensorType::Q4_K));
        let undone = recipe(&["ffn_down_exps=iq4_nl", "experts=q4_0"]);
        assert_eq!(undone.format(Role::DownExps), Some(TensorType::Q4_0));
    }

    #[test]
    fn what_is_no_choice_is_refused_with_the_alternatives() {
        let refused = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert!(refused("dense").contains("ROLE=FORMAT"));
        assert!(refused("=q8_0").contains("ROLE=FORMAT"));
        assert!(refused("densest=q8_0").contains("groups are matrices, dense"));
        assert!(refused("dense=q9_0").contains("formats are f32"));
        // It can be read, but there is no encoder.
        assert!(refused("dense=q2_k").contains("\"q2_k\""));
        assert!(refused("dense=q8_k").contains("\"q8_k\""));
        assert!(refused("ssm_conv1d=q8_0").contains("vectors"));
        assert!("ssm_conv1d=f16".parse::<Choice>().is_ok());
    }

    #[test]
    fn every_role_that_can_be_quantised_is_in_the_smallest_groups_once() {
        let small = |group: &&Group| !["matrices", "dense"].contains(&group.name);
        for role in Role::all().filter(|role| *role != Role::MtpEhProj) {
            let groups = GROUPS.iter().filter(small).filter(|group| group.roles.contains(&role));
            let expected = usize::from(role.accepts() == Accepts::Weights);
            assert_eq!(groups.count(), expected, "{role}");
        }
        let in_group = |name: &str, role| {
            GROUPS.iter().any(|group| group.name == name && group.roles.contains(&role))
        };
        for role in Role::all().filter(|role| role.accepts() == Accepts::Weights) {
            let kept = ["router", "inject", "gates"].iter().any(|name| in_group(name, role));
            assert_eq!(in_group("matrices", role), !kept, "{role}");
            assert!(!in_group("dense", role) || in_group("matrices", role), "{role}");
        }
    }
}
