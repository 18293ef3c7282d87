//! Requantising: a model file with some roles of tensors in other formats, the rest as it was.
//!
//! A tensor that is chosen is decoded to f32 and encoded row by row with `quant`'s encoder. All
//! other tensors keep their bytes, the metadata stays but for the label of the file's format, and
//! a split model is split in the same places.

use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf::{Gguf, Metadata, TensorInfo, TensorType};
use model::Role;

use crate::imatrix::Imatrix;
use crate::transform::{
    Error, Plan, PlannedPart, PlannedTensor, Recipe, Scratch, SharedFile, Sizes, Source, Target,
    set_labels,
};

/// A model file to be written from another one.
#[derive(Debug)]
pub struct Requant {
    /// What is written.
    pub target: Target,
    /// The tensors' bytes before and after.
    pub sizes: Sizes,
    /// Tensors that are encoded anew although the importance matrix does not speak of them; all
    /// of them without one.
    pub without_importance: Vec<String>,
    input: Gguf,
    files: Vec<SharedFile>,
    imatrix: Option<Imatrix>,
}

impl Requant {
    /// Plans the output `path`, or `PREFIX-00001-of-0000N.gguf` beside it for a split model.
    ///
    /// # Errors
    /// [`Error::NoTensor`] for a choice that is about no tensor of the model;
    /// [`Error::Undecodable`]; [`Error::Imatrix`] for one of another model; as [`Target::new`].
    pub fn plan(
        input: &Gguf,
        path: &Path,
        recipe: &Recipe,
        imatrix: Option<Imatrix>,
    ) -> Result<Requant, Error> {
        check_choices(input, recipe)?;
        let outlines: Vec<PlannedTensor> =
            input.tensors().iter().map(|info| planned(info, recipe)).collect();
        let mut without_importance = Vec::new();
        for (info, _) in input.tensors().iter().zip(&outlines).filter(|(_, t)| t.encoded) {
            check_decoder(info)?;
            let known = imatrix.as_ref().map(|imatrix| imatrix.columns(&info.name, &info.dims));
            if known.transpose()?.flatten().is_none() {
                without_importance.push(info.name.clone());
            }
        }
        let target = Target::new(&plan_parts(input, &outlines), path)?;
        let mut sizes = Sizes::default();
        for ((info, tensor), bytes) in
            input.tensors().iter().zip(target.tensors()).zip(target.tensor_bytes())
        {
            sizes.add(&info.name, (info.ty, info.bytes), (tensor.ty, bytes));
        }
        let files = input.parts().iter().map(|path| SharedFile::open(path));
        let files = files.collect::<Result<_, _>>()?;
        Ok(Requant { target, sizes, without_importance, input: input.clone(), files, imatrix })
    }

    /// The files that are read.
    pub fn inputs(&self) -> Vec<PathBuf> {
        self.input.parts().to_vec()
    }

    fn encode(
        &self,
        info: &TensorInfo,
        ty: TensorType,
        row: u64,
        values: &[f32],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let importance = match &self.imatrix {
            Some(imatrix) => imatrix.row(&info.name, &info.dims, row)?,
            None => None,
        };
        quant::encode_row(ty, values, importance, out).map_err(|source| Error::Row {
            tensor: info.name.clone(),
            row,
            source,
        })
    }
}

impl Source for Requant {
    fn identity(&self) -> Vec<u8> {
        let mut identity: Vec<u8> = self.files.iter().flat_map(SharedFile::identity).collect();
        let imatrix = self.imatrix.as_ref().map(Imatrix::fingerprint);
        identity.extend(imatrix.iter().flat_map(|hash| hash.to_le_bytes()));
        identity
    }

    fn fill(
        &self,
        tensor: usize,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let info = &self.input.tensors()[tensor];
        let (file, start) = (&self.files[info.part], self.input.file_offset(info));
        let PlannedTensor { ty, encoded, .. } = *self.target.tensor(tensor);
        if !encoded {
            return file.read_at(start + rows.start, out);
        }
        let (n_in, row_bytes) = (info.n_in() as usize, info.row_bytes());
        scratch.raw.resize(((rows.end - rows.start) * row_bytes) as usize, 0);
        file.read_at(start + rows.start * row_bytes, &mut scratch.raw)?;
        scratch.values.resize(n_in, 0.0);
        let (raw, encoded) = (row_bytes as usize, out.len() / (rows.end - rows.start) as usize);
        let stored = scratch.raw.chunks_exact(raw).zip(out.chunks_exact_mut(encoded));
        for ((raw, out), row) in stored.zip(rows) {
            quant::decode_row(info.ty, raw, &mut scratch.values).map_err(|source| Error::Row {
                tensor: info.name.clone(),
                row,
                source,
            })?;
            self.encode(info, ty, row, &scratch.values, out)?;
        }
        Ok(())
    }
}

fn role(info: &TensorInfo) -> Option<Role> {
    Role::of_name(&info.name).map(|(role, _)| role)
}

fn check_choices(input: &Gguf, recipe: &Recipe) -> Result<(), Error> {
    for choice in recipe.choices() {
        if !input.tensors().iter().filter_map(role).any(|role| choice.covers(role)) {
            return Err(Error::NoTensor { choice: choice.name().to_owned() });
        }
    }
    Ok(())
}

fn planned(info: &TensorInfo, recipe: &Recipe) -> PlannedTensor {
    let chosen = role(info).and_then(|role| recipe.format(role)).filter(|ty| *ty != info.ty);
    let (name, dims) = (info.name.clone(), info.dims.clone());
    PlannedTensor { name, dims, ty: chosen.unwrap_or(info.ty), encoded: chosen.is_some() }
}

/// Weights of integer types or F64 have no decoder.
fn check_decoder(info: &TensorInfo) -> Result<(), Error> {
    match quant::decode_row(info.ty, &[], &mut []) {
        Ok(()) => Ok(()),
        Err(_) => Err(Error::Undecodable { tensor: info.name.clone(), ty: info.ty }),
    }
}

/// The files as they were, but for formats and labels.
fn plan_parts(input: &Gguf, outlines: &[PlannedTensor]) -> Plan {
    let weights = |ty: &dyn Fn(usize) -> TensorType| {
        let weight = |(i, info): (usize, &TensorInfo)| (ty(i), info.elements());
        input.tensors().iter().enumerate().map(weight).collect::<Vec<_>>()
    };
    let before = weights(&|i| input.tensors()[i].ty);
    let after = weights(&|i| outlines[i].ty);
    let of_part = |part: usize| {
        let tensors = input.tensors().iter().zip(outlines);
        tensors.filter(|(info, _)| info.part == part).map(|(_, tensor)| tensor.clone()).collect()
    };
    let part = |part: usize| {
        let mut metadata: Metadata = input.part_metadata(part).clone();
        if part == 0 {
            set_labels(&mut metadata, Some(&before), &after);
        }
        PlannedPart { metadata, tensors: of_part(part) }
    };
    Plan { parts: (0..input.parts().len()).map(part).collect() }
}
