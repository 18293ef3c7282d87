//! What audits found, in a file: the tile table that the engine loads, and where an audit that was
//! broken off goes on.
//!
//! A file belongs to one device key. It is written anew as a whole, to a temporary file that takes
//! its place, after each product; one that cannot be read is treated as absent and says why.

use super::sweep::Found;
use kernels::tiles::TileTable;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Rises when what is measured, what tiles mean, or what is built in changes.
const VERSION: u32 = 3;

/// Largest file that is read.
const LARGEST: u64 = 64 << 20;

/// Entries of one device.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct Content {
    version: u32,
    device: String,
    found: Vec<Found>,
    /// Rows of windows that the tiles make faster as a whole.
    gains: Vec<usize>,
}

/// Whether a whole window is faster with all tiles that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// By more than the noise.
    Yes,
    /// Not, or not to be told.
    No,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("the tile table {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is damaged, or of another version or device.
    #[error("the tile table {} is not used: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Store {
    /// The file of a device in `folder`.
    pub fn path_in(folder: &Path, device: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = device.chars().map(plain).take(80).collect();
        // Names that differ in what is replaced or cut must not share a file.
        let hash = device.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        folder.join(format!("{name}-{hash:016x}.json"))
    }

    /// An empty one, to be kept in `folder`.
    pub fn new(folder: &Path, device: &str) -> Self {
        let path = Self::path_in(folder, device);
        let (version, device) = (VERSION, device.to_owned());
        Self { path, content: Content { version, device, ..Content::default() } }
    }

    /// What is in `folder` for this device; nothing if there is no file.
    ///
    /// # Errors
    /// [`StoreError`] for a file that is there and of no use.
    pub fn load(folder: &Path, device: &str) -> Result<Self, StoreError> {
        let path = Self::path_in(folder, device);
        let unusable = |why: String| StoreError::Unusable { path: path.clone(), why };
        let text = match read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(Self::new(folder, device)),
            Err(source) => return Err(StoreError::Io { path, source }),
        };
        let content: Content =
            serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
        if content.version != VERSION {
            return Err(unusable(format!("it is of version {}", content.version)));
        }
        if content.device != device {
            return Err(unusable(format!("it is of {:?}", content.device)));
        }
        Ok(Self { path, content })
    }

    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries.
    pub fn found(&self) -> &[Found] {
        &self.content.found
    }

    /// The entry of a product at a number of rows.
    pub fn get(&self, shape: &str, rows: usize) -> Option<&Found> {
        self.content.found.iter().find(|found| found.shape == shape && found.rows == rows)
    }

    /// Notes an entry, in place of an earlier one, and saves all.
    ///
    /// # Errors
    /// [`StoreError::Io`]; the entry is noted even so.
    pub fn put(&mut self, found: Found) -> Result<(), StoreError> {
        let all = &mut self.content.found;
        all.retain(|known| (&known.shape, known.rows) != (&found.shape, found.rows));
        // Whether a window gains by other tiles than before is not known.
        self.content.gains.retain(|rows| *rows != found.rows);
        all.push(found);
        self.save()
    }

    /// Notes of rows that were measured whether a whole window of so many gains by all tiles
    /// together.
    ///
    /// # Errors
    /// [`StoreError::Io`]; it is noted even so.
    pub fn put_gains(&mut self, measured: &[(usize, Gain)]) -> Result<(), StoreError> {
        let all = &mut self.content.gains;
        all.retain(|known| measured.iter().all(|(rows, _)| rows != known));
        all.extend(measured.iter().filter(|(_, gain)| *gain == Gain::Yes).map(|(rows, _)| rows));
        self.save()
    }

    /// The tiles that beat those built in, at rows of which a whole window was seen to gain.
    pub fn table(&self) -> TileTable {
        self.table_of(|found| self.content.gains.contains(&found.rows))
    }

    /// The tiles that beat those built in, whether a whole window gains by them or not.
    pub fn full_table(&self) -> TileTable {
        self.table_of(|_| true)
    }

    fn table_of(&self, wanted: impl Fn(&Found) -> bool) -> TileTable {
        let mut table = TileTable::default();
        for found in self.found().iter().filter(|found| !found.tile.is_empty() && wanted(found)) {
            table.insert(found.shape.clone(), found.class(), found.tile());
        }
        table
    }

    fn save(&self) -> Result<(), StoreError> {
        self.write().map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }

    fn write(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let unfinished = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let text = serde_json::to_string_pretty(&self.content).map_err(io::Error::other)?;
        let written = fs::File::create(&unfinished).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &self.path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

/// The file's text; `None` if there is no file.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(known) if known.len() > LARGEST => Err(io::Error::other("it is too large")),
        Ok(_) => fs::read_to_string(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
