//! Reading of input lines on a thread of its own.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

/// Largest length of a line in bytes, many times that of a game of thousands of moves; the rest is cut off.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// Time for the engine to leave after `quit`. A command may wait for a disk or a network that does not answer.
const TIME_TO_QUIT: Duration = Duration::from_secs(5);

/// A line that was read, with all but its end of line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// True if the line was longer than [`MAX_LINE`], and `text` is only its beginning.
    pub(crate) is_cut: bool,
}

/// Events for the thread that executes commands.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line was read.
    Line(Line),
    /// The work in progress has ended.
    WorkEnded,
    /// No more lines will come.
    EndOfInput,
}

/// Passes lines on, up to `quit` or the end of the input. As soon as `quit` is read, `quitting` is set to end slow
/// work such as clearing a large table; if the engine has not ended some seconds later, the process is.
pub(crate) fn read_lines(mut input: impl BufRead, events: &mpsc::Sender<Event>, quitting: &AtomicBool) {
    let mut bytes = Vec::new();
    while let Ok(Some(is_cut)) = read_line(&mut input, &mut bytes) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_quit = text.trim() == "quit";
        if is_quit {
            quitting.store(true, Relaxed);
        }
        if events.send(Event::Line(Line { text, is_cut })).is_err() {
            return;
        }
        if is_quit {
            std::thread::sleep(TIME_TO_QUIT);
            std::process::exit(0);
        }
        bytes.clear();
    }
    // An engine that has gone does not need to know.
    let _ = events.send(Event::EndOfInput);
}

/// Reads one line of any length, keeping at most [`MAX_LINE`] bytes of it. Returns whether it was cut off; `None` at
/// the end of the input.
///
/// # Errors
/// If the input cannot be read.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<bool>> {
    let (mut seen, mut is_cut) = (false, false);
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(seen.then_some(is_cut));
        }
        seen = true;
        let (part, used) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&buffer[..end], end + 1),
            None => (buffer, buffer.len()),
        };
        let remaining = MAX_LINE.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(remaining)]);
        is_cut |= part.len() > remaining;
        let ended = used > part.len();
        input.consume(used);
        if ended {
            return Ok(Some(is_cut));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_limit_and_the_last_needs_no_end() {
        let limit = "x".repeat(MAX_LINE);
        let input = format!("go\n\n{limit}\n{limit}y\r\nstop");
        let mut input = input.as_bytes();
        let mut read = || {
            let mut bytes = Vec::new();
            read_line(&mut input, &mut bytes)
                .unwrap()
                .map(|is_cut| (String::from_utf8(bytes).unwrap(), is_cut))
        };
        assert_eq!(read(), Some(("go".into(), false)));
        assert_eq!(read(), Some((String::new(), false)));
        assert_eq!(read(), Some((limit.clone(), false)));
        assert_eq!(read(), Some((limit, true)));
        assert_eq!(read(), Some(("stop".into(), false)));
        assert_eq!(read(), None);
    }
}
