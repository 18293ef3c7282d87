//! How large the tensors of each role were and become.

use gguf::TensorType;
use model::Role;

/// The tensors of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeRow {
    /// The role's name in tables, or the tensor's name if it has no known role.
    pub name: String,
    /// Tensors.
    pub tensors: usize,
    /// Formats before, each once, in order of appearance.
    pub before: Vec<TensorType>,
    /// Formats after.
    pub after: Vec<TensorType>,
    /// Bytes before.
    pub bytes_before: u64,
    /// Bytes after.
    pub bytes_after: u64,
}

/// All roles in order of appearance, and the sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// By role.
    pub rows: Vec<SizeRow>,
}

impl Sizes {
    /// Counts a tensor.
    pub(crate) fn add(&mut self, name: &str, before: (TensorType, u64), after: (TensorType, u64)) {
        let role = Role::of_name(name).map(|(role, _)| role.short_name());
        let name = role.unwrap_or(name);
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(SizeRow::new(name));
            self.rows.len() - 1
        });
        let row = &mut self.rows[index];
        row.tensors += 1;
        push_once(&mut row.before, before.0);
        push_once(&mut row.after, after.0);
        row.bytes_before += before.1;
        row.bytes_after += after.1;
    }

    /// Tensors of all roles, and their bytes before and after.
    pub fn total(&self) -> (usize, u64, u64) {
        self.rows.iter().fold((0, 0, 0), |(tensors, before, after), row| {
            (tensors + row.tensors, before + row.bytes_before, after + row.bytes_after)
        })
    }
}

impl SizeRow {
    fn new(name: &str) -> SizeRow {
        SizeRow {
            name: name.to_owned(),
            tensors: 0,
            before: Vec::new(),
            after: Vec::new(),
            bytes_before: 0,
            bytes_after: 0,
        }
    }
}

fn push_once(types: &mut Vec<TensorType>, ty: TensorType) {
    if !types.contains(&ty) {
        types.push(ty);
    }
}
