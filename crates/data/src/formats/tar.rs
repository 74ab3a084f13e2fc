//! Tar archives, limited to what training data needs: regular files with short names.

use std::io::{self, BufRead};

const UNIT: usize = 512;

/// Next item of an archive.
pub(super) enum Member {
    /// A file with its name and length in bytes. Its content follows, padded to a multiple of 512 bytes.
    File { name: String, len: u64 },
    /// Anything but a file, for example a folder: this number of bytes is to be skipped.
    Other { len: u64 },
    /// End of the archive: an empty block or the end of the stream.
    End,
    /// Data that is not an archive, or a damaged header.
    Broken(&'static str),
}

/// True if a stream that begins with these bytes is an archive.
pub(super) fn is_tar(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

/// Reads and checks the header of the next member.
pub(super) fn next_member(input: &mut dyn BufRead) -> io::Result<Member> {
    let mut header = Vec::with_capacity(UNIT);
    crate::codec::read_up_to(input, &mut header, UNIT)?;
    if header.iter().all(|&byte| byte == 0) {
        return Ok(Member::End);
    }
    if header.len() < UNIT || !is_tar(&header) {
        return Ok(Member::Broken("no tar header stands here"));
    }
    let sum: u32 = header
        .iter()
        .enumerate()
        .map(|(at, &byte)| u32::from(if (148..156).contains(&at) { b' ' } else { byte }))
        .sum();
    if octal(&header[148..156]) != Some(u64::from(sum)) {
        return Ok(Member::Broken("the checksum of a tar header is wrong"));
    }
    let Some(len) = octal(&header[124..136]) else {
        return Ok(Member::Broken("a tar header without a length"));
    };
    let name = header[..100].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(match header[156] {
        b'0' | 0 => Member::File { name: String::from_utf8_lossy(name).into_owned(), len },
        _ => Member::Other { len },
    })
}

fn octal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

/// Number of padding bytes behind a member of this length.
pub(super) fn padding(len: u64) -> u64 {
    len.next_multiple_of(UNIT as u64) - len
}

/// Appends a file with its header and padding.
pub(super) fn write_member(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    let mut header = [0u8; UNIT];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", bytes.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend(header);
    out.extend(bytes);
    out.extend(std::iter::repeat_n(0, padding(bytes.len() as u64) as usize));
}

/// Appends the two empty blocks that end an archive.
pub(super) fn write_end(out: &mut Vec<u8>) {
    out.extend([0; 2 * UNIT]);
}
