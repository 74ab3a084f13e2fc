//! What is done so far, on the disk in whole blocks: a run that is killed loses no more than the block in hand.

use crate::error::SelfPlayError;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tandem_chess::random::SplitMix;
use tandem_data::Record;

const MAGIC: &[u8; 8] = b"TLABELS1";
/// The length and the checksum of a block, of the first of which nobody needs more than this.
const FRAME: usize = 16;
const MAX_BLOCK: u64 = 1 << 24;

/// Blocks of records, one after the other. The first says what they are.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Blocks that are there.
    pub(crate) blocks: u64,
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, word| {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        SplitMix::new(hash ^ u64::from_le_bytes(padded)).next_u64()
    })
}

/// The next block; None at the end, or where a block is not whole.
fn read_block(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut frame = [0; FRAME];
    let mut full = |bytes: &mut [u8]| match input.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    };
    if !full(&mut frame)? {
        return Ok(None);
    }
    let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap_or_default());
    let (len, sum) = (number(0), number(8));
    if len > MAX_BLOCK {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    Ok((full(&mut bytes)? && checksum(&bytes) == sum).then_some(bytes))
}

impl Journal {
    /// Opens a journal, or begins it. One that is about something else is refused.
    pub(crate) fn open(path: &Path, about: &str) -> Result<Self, SelfPlayError> {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(SelfPlayError::io(path))?;
        let len = file.metadata().map_err(SelfPlayError::io(path))?.len();
        let (mut blocks, mut end) = (0, 0);
        let mut known = None;
        let scanned = || -> io::Result<()> {
            let mut input = BufReader::new(&file);
            let mut magic = [0; 8];
            if input.read_exact(&mut magic).is_err() || magic != *MAGIC {
                return Ok(());
            }
            end = MAGIC.len() as u64;
            while let Some(bytes) = read_block(&mut input)? {
                end += (FRAME + bytes.len()) as u64;
                match known {
                    None => known = Some(bytes),
                    Some(_) => blocks += 1,
                }
            }
            Ok(())
        };
        let mut scanned = scanned;
        scanned().map_err(SelfPlayError::io(path))?;
        let fresh = known.is_none();
        // A run that was killed leaves less than a block behind the last whole one. Anything else was not left by us.
        let torn = len.saturating_sub(end);
        if fresh && len > (MAGIC.len() + FRAME + about.len()) as u64 || torn > FRAME as u64 + MAX_BLOCK {
            let problem =
                format!("no journal of labels, or damaged at byte {end}; move it away to begin anew");
            return Err(SelfPlayError::Other { path: path.into(), problem });
        }
        if let Some(known) = known
            && known != about.as_bytes()
        {
            let known = String::from_utf8_lossy(&known).into_owned();
            let problem = format!("begun with other settings ({known}); use those, or remove the file");
            return Err(SelfPlayError::Other { path: path.into(), problem });
        }
        let end = if fresh { 0 } else { end };
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.map_err(SelfPlayError::io(path))?;
        let mut journal = Self { file, path: path.into(), blocks };
        if fresh {
            journal.file.write_all(MAGIC).map_err(SelfPlayError::io(path))?;
            journal.write(about.as_bytes())?;
        }
        Ok(journal)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SelfPlayError> {
        let mut frame = Vec::with_capacity(FRAME + bytes.len());
        frame.extend((bytes.len() as u64).to_le_bytes());
        frame.extend(checksum(bytes).to_le_bytes());
        frame.extend(bytes);
        self.file.write_all(&frame).map_err(SelfPlayError::io(&self.path))
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, records: &[Record]) -> Result<(), SelfPlayError> {
        let bytes: Vec<u8> = records.iter().flat_map(Record::pack).collect();
        self.write(&bytes)?;
        self.blocks += 1;
        Ok(())
    }

    /// Hands out all records, block by block.
    pub(crate) fn read(
        self,
        mut sink: impl FnMut(&Record) -> Result<(), SelfPlayError>,
    ) -> Result<(), SelfPlayError> {
        let mut input = BufReader::new(File::open(&self.path).map_err(SelfPlayError::io(&self.path))?);
        let mut magic = [0; 8];
        input.read_exact(&mut magic).map_err(SelfPlayError::io(&self.path))?;
        let mut first = true;
        let mut read = 0;
        while let Some(bytes) = read_block(&mut input).map_err(SelfPlayError::io(&self.path))? {
            if std::mem::take(&mut first) {
                continue;
            }
            read += 1;
            for record in bytes.as_chunks::<{ Record::SIZE }>().0 {
                sink(&Record::unpack(record))?;
            }
        }
        if read < self.blocks {
            let problem = format!("damaged: {read} of {} blocks can be read", self.blocks);
            return Err(SelfPlayError::Other { path: self.path, problem });
        }
        Ok(())
    }
}
