//! Reading of input lines on a thread of its own.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use tandem_search::Signals;

/// Largest length of a line in bytes, many times that of a game of thousands of moves; the rest is cut off.
const MAX_LINE: usize = 1 << 20;

/// Passes lines on, and acts at once on `stop` and `quit`, which cannot wait for the command before them.
pub(crate) fn read_lines(
    mut input: impl BufRead,
    lines: &mpsc::Sender<String>,
    signals: &Signals,
    quitting: &AtomicBool,
) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match read_line(&mut input, &mut bytes) {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
        let line = String::from_utf8_lossy(&bytes).into_owned();
        match line.trim() {
            "stop" => signals.stop(),
            "quit" => {
                quitting.store(true, Relaxed);
                signals.stop();
            }
            _ => {}
        }
        if lines.send(line).is_err() {
            return;
        }
    }
}

/// Reads one line of any length, keeping at most [`MAX_LINE`] bytes of it. Returns false at the end of the
/// input.
///
/// # Errors
/// If the input cannot be read.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut seen = false;
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(seen);
        }
        seen = true;
        let (part, used) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&buffer[..end], end + 1),
            None => (buffer, buffer.len()),
        };
        let remaining = MAX_LINE.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(remaining)]);
        let ended = used > part.len();
        input.consume(used);
        if ended {
            return Ok(true);
        }
    }
}
