//! Files as they are read: through zstd or gzip, or whole.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Large enough that a system call or a decoder's turn is rare.
const BUFFER: usize = 256 * 1024;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// The longest window a zstd file may ask for; `--long=31` is the most that its own program writes.
const ZSTD_WINDOW_LOG: u32 = 31;

/// Opens a file for reading, through zstd or gzip where its first bytes call for it; its name does not matter.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    File::open(path).and_then(decode)
}

/// A whole file of at most `most` bytes, which is said to be a `what`. What is no file is refused before it is opened: a pipe
/// would let us wait, and a device may have no end.
pub fn read_whole(path: &Path, most: u64, what: &str) -> io::Result<Vec<u8>> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    if metadata.len() > most {
        return Err(io::Error::other(format!("{} bytes are too many for a {what}", metadata.len())));
    }
    std::fs::read(path)
}

/// Whether [`open`] would unpack a file.
pub fn is_compressed(path: &Path) -> io::Result<bool> {
    let mut magic = Vec::with_capacity(4);
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    Ok(is_zstd(&magic) || is_gzip(&magic))
}

/// Reads any source, through zstd or gzip where its first bytes call for it.
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

/// Parallel zstd compressors put their bookkeeping in front, in a frame that every decoder skips.
fn is_zstd(magic: &[u8]) -> bool {
    magic == ZSTD_MAGIC || matches!(magic, [0x50..=0x5F, 0x2A, 0x4D, 0x18])
}

/// Two bytes alone may begin a packed position too; by RFC 1952 the method follows, and flags of which three are unused.
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
    fn what_is_too_long_or_no_file_is_refused() {
        let path = std::env::temp_dir().join(format!("tandem-whole-{}", std::process::id()));
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_whole(&path, 4, "word").unwrap(), b"four");
        let told = |path: &Path| read_whole(path, 3, "word").unwrap_err().to_string();
        assert_eq!(told(&path), "4 bytes are too many for a word");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(told(&std::env::temp_dir()), "not a file");
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

    /// A position of bulletformat: the squares of the first ranks come first.
    #[test]
    fn a_position_that_begins_like_gzip_is_none() {
        for start in [[0x1F_u8, 0x8B, 0x42, 0x00], [0x1F, 0x8B, 0x08, 0x30]] {
            let bytes = [&start[..], &[0x66; 28]].concat();
            let mut read = Vec::new();
            decode(Cursor::new(bytes.clone())).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
        }
    }

    #[test]
    fn a_missing_file_is_missed() {
        let error = open(Path::new("no/such/file.pgn")).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
