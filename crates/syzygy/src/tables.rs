//! All tables of some folders, opened when they are first needed.

use crate::error::{BrokenTable, Damage, Kind, ProbeError, SyzygyError};
use crate::material::{MAX_PIECES, Material, MaterialHasher};
use crate::result::Wdl;
use crate::table::{Contents, Table, is_possible_length};
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use tandem_chess::Board;
use tandem_memory::MappedFile;

/// Open Syzygy tables. They can be probed from many threads, without locks once a table was used.
///
/// A table is mapped into memory and its header checked when it is first needed. Afterwards every offset that is
/// read is checked, so that no damage can crash the program: the probe fails, the table is not used any more, and
/// [`Self::take_broken`] says why. There is one exception: if another program *truncates* a table while it is in
/// use, the operating system ends this one, as with every mapped file. Replacing or removing the file is harmless.
/// Damage that leaves the structure whole cannot be noticed, and then results are wrong.
pub struct Tables {
    /// The tables of each material, with both colours as the first.
    endings: HashMap<Material, usize, BuildHasherDefault<MaterialHasher>>,
    slots: Vec<[Option<Slot>; 2]>,
    max_pieces: usize,
    /// Tables that turned out to be unusable and were not reported yet.
    broken: Mutex<Vec<BrokenTable>>,
}

/// A table that was found, and may be open.
struct Slot {
    path: PathBuf,
    material: Material,
    kind: Kind,
    /// The table once it was needed; `None` if it cannot be used.
    table: OnceLock<Option<Table>>,
    /// Set when a probe found damage.
    is_off: AtomicBool,
}

impl Slot {
    fn new(path: PathBuf, material: Material, kind: Kind) -> Self {
        Self { path, material, kind, table: OnceLock::new(), is_off: AtomicBool::new(false) }
    }

    fn load(&self) -> Result<Table, BrokenTable> {
        let mapped = MappedFile::open(&self.path).map_err(|error| BrokenTable::Unreadable {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        mapped.advise_random_access();
        Table::new(Contents::Mapped(mapped), self.kind, self.material).map_err(|damage| self.damaged(damage))
    }

    fn damaged(&self, damage: Damage) -> BrokenTable {
        BrokenTable::Damaged { path: self.path.clone(), damage }
    }
}

impl Tables {
    /// Opens the tables in one or more folders, separated as in the environment variable `PATH`. If several folders
    /// have the same table, the first one counts.
    ///
    /// # Errors
    ///
    /// If there are no tables, or the length of one is impossible. Other damage is noticed when a table is used.
    pub fn open(folders: &str) -> Result<Self, SyzygyError> {
        let mut tables = Self::empty();
        for folder in std::env::split_paths(folders) {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                tables.add(&entry.path())?;
            }
        }
        if tables.max_pieces == 0 { Err(SyzygyError::NoTables(folders.to_owned())) } else { Ok(tables) }
    }

    /// Tables that are already in memory: file names, for example `KQvK.rtbw`, with the bytes of the files. Files
    /// with other names are ignored.
    pub fn from_files(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Self {
        let mut tables = Self::empty();
        for (path, bytes) in files {
            let Some((material, kind)) = table_of(&path) else { continue };
            let slot = Slot::new(path, material, kind);
            let table = Table::new(Contents::Memory(bytes), kind, material);
            let table = table.map_err(|damage| tables.report(slot.damaged(damage))).ok();
            let _ = slot.table.set(table);
            tables.insert(slot);
        }
        tables
    }

    fn empty() -> Self {
        Self { endings: HashMap::default(), slots: Vec::new(), max_pieces: 0, broken: Mutex::default() }
    }

    /// Records a file if it is a table.
    fn add(&mut self, path: &Path) -> Result<(), SyzygyError> {
        let Some((material, kind)) = table_of(path) else { return Ok(()) };
        if !path.metadata().is_ok_and(|file| is_possible_length(file.len())) {
            return Err(SyzygyError::Truncated(path.display().to_string()));
        }
        self.insert(Slot::new(path.to_owned(), material, kind));
        Ok(())
    }

    fn insert(&mut self, slot: Slot) {
        let (material, kind) = (slot.material, slot.kind);
        if kind == Kind::Wdl {
            self.max_pieces = self.max_pieces.max(material.pieces());
        }
        let next = self.slots.len();
        let ending = *self.endings.entry(material).or_insert(next);
        self.endings.entry(material.swapped()).or_insert(ending);
        if ending == next {
            self.slots.push([None, None]);
        }
        self.slots[ending][kind as usize].get_or_insert(slot);
    }

    /// Number of pieces of the largest table of results, kings included.
    #[inline]
    pub fn max_pieces(&self) -> usize {
        self.max_pieces
    }

    /// Number of tables of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.slots.iter().filter(|ending| ending[kind as usize].is_some()).count()
    }

    /// Tables that turned out to be unusable since the last call. Each is listed once.
    pub fn take_broken(&self) -> Vec<BrokenTable> {
        std::mem::take(&mut *self.broken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn report(&self, broken: BrokenTable) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).push(broken);
    }

    /// True if tables can have a position: it has few enough pieces and no castling rights.
    pub(crate) fn check_coverage(&self, board: &Board) -> Result<(), ProbeError> {
        // The number of pieces of a table is limited, and with it the time of the search for captures.
        if board.occupied().len() as usize > self.max_pieces.min(MAX_PIECES) {
            return Err(ProbeError::TooManyPieces);
        }
        let may_castle = tandem_chess::Color::ALL.into_iter().any(|color| {
            let rights = board.castle_rights(color);
            rights.short.is_some() || rights.long.is_some()
        });
        if may_castle { Err(ProbeError::CastlingRights) } else { Ok(()) }
    }

    /// Reads from the table of a kind and material.
    #[inline]
    fn read<T>(
        &self,
        material: Material,
        kind: Kind,
        value: impl FnOnce(&Table) -> Result<T, Damage>,
    ) -> Result<T, ProbeError> {
        let slot = self.endings.get(&material).and_then(|&ending| self.slots[ending][kind as usize].as_ref());
        let slot = slot.ok_or(ProbeError::Missing(material, kind))?;
        let table = slot.table.get_or_init(|| slot.load().map_err(|broken| self.report(broken)).ok());
        match table {
            Some(table) if !slot.is_off.load(Relaxed) => value(table).map_err(|damage| {
                if !slot.is_off.swap(true, Relaxed) {
                    self.report(slot.damaged(damage));
                }
                ProbeError::Broken(slot.material, kind)
            }),
            _ => Err(ProbeError::Broken(slot.material, kind)),
        }
    }

    /// Result of a position as its table has it, that is, without captures and en passant.
    #[inline]
    pub(crate) fn stored_wdl(&self, board: &Board) -> Result<Wdl, ProbeError> {
        let material = Material::of(board);
        if material == Material::BARE_KINGS {
            return Ok(Wdl::Draw);
        }
        self.read(material, Kind::Wdl, |table| table.wdl(board, material))
    }

    /// Distance of a position with a result as its table has it; `None` if the other side's distances are stored.
    pub(crate) fn stored_dtz(&self, board: &Board, wdl: Wdl) -> Result<Option<i32>, ProbeError> {
        let material = Material::of(board);
        self.read(material, Kind::Dtz, |table| table.dtz(board, material, wdl))
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables")
            .field("wdl", &self.count(Kind::Wdl))
            .field("dtz", &self.count(Kind::Dtz))
            .field("max_pieces", &self.max_pieces)
            .finish_non_exhaustive()
    }
}

/// Material and kind of a file of this name; `None` if it is not a table.
fn table_of(path: &Path) -> Option<(Material, Kind)> {
    let extension = path.extension()?;
    let kind = Kind::ALL.into_iter().find(|kind| extension == kind.extension())?;
    let material = Material::parse(path.file_stem()?.to_str()?)?;
    (material != Material::BARE_KINGS).then_some((material, kind))
}
