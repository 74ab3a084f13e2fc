//! Opening files for reading, with zstd and gzip decompressed transparently.
//!
//! Compression is recognised by the first bytes and never by the name, because files are often renamed.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Buffer size in bytes, large enough that system calls and decoder calls are rare.
const BUFFER: usize = 256 * 1024;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Largest window that a zstd file may require, as a power of two; `--long=31` is the maximum of the zstd
/// program.
const ZSTD_WINDOW_LOG: u32 = 31;

/// Opens a file for reading and decompresses zstd or gzip, recognised by the first bytes.
///
/// # Errors
///
/// Fails if the file cannot be opened or read.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    File::open(path).and_then(decode)
}

/// Reads a whole file of at most `max_bytes` bytes; `kind` names it in the error message. Only regular files
/// are opened, because a pipe would block and a device may be endless.
///
/// # Errors
///
/// Fails if the path is not a file, if it is too long, or if it cannot be read.
pub fn read_whole(path: &Path, max_bytes: u64, kind: &str) -> io::Result<Vec<u8>> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    if metadata.len() > max_bytes {
        return Err(io::Error::other(format!("{} bytes are too many for a {kind}", metadata.len())));
    }
    std::fs::read(path)
}

/// True if [`open`] would decompress the file.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn is_compressed(path: &Path) -> io::Result<bool> {
    let mut magic = Vec::with_capacity(4);
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    Ok(is_zstd(&magic) || is_gzip(&magic))
}

/// Wraps any source, for example a pipe, and decompresses zstd or gzip, recognised by the first bytes.
///
/// # Errors
///
/// Fails if the source cannot be read.
pub fn decode(mut source: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut magic)?;
    let (is_zstd, is_gzip) = (is_zstd(&magic), is_gzip(&magic));
    let whole = BufReader::with_capacity(BUFFER, Cursor::new(magic).chain(source));
    if is_zstd {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(whole)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG)?;
        Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
    } else if is_gzip {
        Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole))))
    } else {
        Ok(Box::new(whole))
    }
}

/// True for zstd. Parallel compressors put their bookkeeping first, in a skippable frame, which counts too.
fn is_zstd(magic: &[u8]) -> bool {
    magic == ZSTD_MAGIC || matches!(magic, [0x50..=0x5F, 0x2A, 0x4D, 0x18])
}

/// True for gzip. Two magic bytes could also begin a packed position, so the method of RFC 1952 and the three
/// unused flags are checked as well.
fn is_gzip(magic: &[u8]) -> bool {
    matches!(magic, [0x1F, 0x8B, 0x08, flags] if flags & 0xE0 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn read(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        decode(Cursor::new(bytes))?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn long_files_and_folders_are_refused() {
        let path = std::env::temp_dir().join(format!("tandem-whole-{}", std::process::id()));
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_whole(&path, 4, "word").unwrap(), b"four");
        let refused = |path: &Path| read_whole(path, 3, "word").unwrap_err().to_string();
        assert_eq!(refused(&path), "4 bytes are too many for a word");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refused(&std::env::temp_dir()), "not a file");
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn plain_text_of_any_length_passes_through() {
        for text in ["", "a", "abc", "abcd", "a longer text"] {
            assert_eq!(read(text.into()).unwrap(), text);
        }
    }

    #[test]
    fn every_frame_and_member_is_read() {
        let mut frames = zstd::encode_all("one ".as_bytes(), 1).unwrap();
        frames.extend(zstd::encode_all("two".as_bytes(), 1).unwrap());
        assert_eq!(read(frames.clone()).unwrap(), "one two");
        let mut skippable = vec![0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 7, 7];
        skippable.extend(frames);
        assert_eq!(read(skippable).unwrap(), "one two");
        assert_eq!(read([gzip("one "), gzip("two")].concat()).unwrap(), "one two");
    }

    #[test]
    fn a_broken_file_is_an_error() {
        let mut cut = zstd::encode_all("some text that goes on".as_bytes(), 1).unwrap();
        cut.truncate(cut.len() - 3);
        assert!(read(cut).is_err());
        let mut cut = gzip("some text that goes on");
        cut.truncate(cut.len() - 3);
        assert!(read(cut).is_err());
    }

    /// A position of bulletformat begins with its occupied squares.
    #[test]
    fn a_position_that_begins_like_gzip_is_not_gzip() {
        for start in [[0x1F_u8, 0x8B, 0x42, 0x00], [0x1F, 0x8B, 0x08, 0x30]] {
            let bytes = [&start[..], &[0x66; 28]].concat();
            let mut read = Vec::new();
            decode(Cursor::new(bytes.clone())).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
        }
    }

    #[test]
    fn a_missing_file_is_reported() {
        let error = open(Path::new("no/such/file.pgn")).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
