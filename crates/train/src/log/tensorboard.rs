//! Event files of TensorBoard.
//!
//! A file is a sequence of records: the length, the checksum of the length, an `Event` as a protocol buffer,
//! and its checksum. A run writes only scalars and histograms.

use super::append::Appender;
use super::histogram::Histogram;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tandem_util::checksum::crc32c;
use tandem_util::protobuf::Message;

const PREFIX: &str = "events.out.tfevents.";

/// An event file open for appending, in the format of TensorFlow's summary writer.
#[derive(Debug)]
pub(super) struct EventWriter {
    file: Appender,
    path: PathBuf,
}

impl EventWriter {
    /// Creates a new file beside the existing ones. Events of earlier files from `first_step` on are
    /// superseded, as TensorBoard understands it.
    pub(super) fn create(folder: &Path, first_step: u64) -> io::Result<Self> {
        // Readers sort files by name, so the number has to grow even if the clock was set back.
        let mut number = seconds_now() as u64;
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('.').next());
            if let Some(found) = digits.and_then(|digits| digits.parse::<u32>().ok()) {
                number = number.max(u64::from(found) + 1);
            }
        }
        let path = folder.join(format!("{PREFIX}{number:010}.tandem"));
        let mut writer = Self { file: Appender::new(File::create_new(&path)?)?, path };
        let mut version = event(0);
        version.text(3, "brain.Event:2");
        writer.write(&version)?;
        // A session log with the status START.
        let (mut session, mut start) = (event(first_step), Message::default());
        start.varint(1, 1);
        session.message(7, &start);
        writer.write(&session)?;
        Ok(writer)
    }

    /// Path of the event file, for error messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes scalars by their tags, all in one event of a step.
    pub(super) fn scalars<S: AsRef<str>>(&mut self, step: u64, scalars: &[(S, f64)]) -> io::Result<()> {
        let mut summary = Message::default();
        for (tag, number) in scalars {
            let (tag, number) = (tag.as_ref(), *number);
            let mut value = Message::default();
            value.text(1, tag);
            value.float(2, number as f32);
            summary.message(1, &value);
        }
        self.write_summary(step, &summary)
    }

    /// Writes a histogram of values under a tag.
    pub(super) fn histogram(&mut self, step: u64, tag: &str, histogram: &Histogram) -> io::Result<()> {
        let limits: Vec<f64> = histogram.limits().collect();
        let bins: Vec<f64> = histogram.bins.iter().map(|&count| count as f64).collect();
        let mut message = Message::default();
        message.double(1, histogram.min);
        message.double(2, histogram.max);
        message.double(3, histogram.count as f64);
        message.double(4, histogram.sum);
        message.double(5, histogram.sum_of_squares);
        message.doubles(6, &limits);
        message.doubles(7, &bins);
        let (mut value, mut summary) = (Message::default(), Message::default());
        value.text(1, tag);
        value.message(5, &message);
        summary.message(1, &value);
        self.write_summary(step, &summary)
    }

    fn write_summary(&mut self, step: u64, summary: &Message) -> io::Result<()> {
        let mut event = event(step);
        event.message(5, summary);
        self.write(&event)
    }

    fn write(&mut self, event: &Message) -> io::Result<()> {
        let event = event.as_bytes();
        let length = (event.len() as u64).to_le_bytes();
        let mut record = length.to_vec();
        record.extend(masked_crc(&length).to_le_bytes());
        record.extend(event);
        record.extend(masked_crc(event).to_le_bytes());
        self.file.append(&record)
    }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// An event of a step, with the present time.
fn event(step: u64) -> Message {
    let mut event = Message::default();
    event.double(1, seconds_now());
    event.varint(2, step);
    event
}

/// The masked checksum of TFRecord files: rotated and shifted, because checksums of data that contains
/// checksums are weak.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::super::tests::folder;
    use super::*;
    use std::process::Command;

    /// CRC-32C bit by bit, straight from the polynomial.
    fn plain_crc(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for bit in bytes.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1))) {
            crc = if (crc & 1) ^ bit == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
        }
        !crc
    }

    /// The complete records of a file; anything after the last one is ignored, as readers do.
    fn records(bytes: &[u8]) -> Vec<&[u8]> {
        let check = |bytes: &[u8], stored: &[u8]| {
            let stored = u32::from_le_bytes(stored.try_into().unwrap()).wrapping_sub(0xA282_EAD8);
            assert_eq!(stored.rotate_left(15), plain_crc(bytes));
        };
        let (mut rest, mut records) = (bytes, Vec::new());
        while let Some((head, tail)) = rest.split_at_checked(12) {
            check(&head[..8], &head[8..]);
            let length = u64::from_le_bytes(head[..8].try_into().unwrap()) as usize;
            let Some((body, tail)) = tail.split_at_checked(length + 4) else { break };
            check(&body[..length], &body[length..]);
            records.push(&body[..length]);
            rest = tail;
        }
        records
    }

    #[test]
    fn records_are_framed_and_a_torn_one_harms_no_other() {
        let folder = folder("events");
        let mut writer = EventWriter::create(&folder, 1).unwrap();
        writer.scalars(300, &[("train/loss", 0.5), ("rate", 0.25)]).unwrap();
        writer.histogram(301, "w", &Histogram::new(&[0.0, 1.0], 2)).unwrap();
        let bytes = fs::read(writer.path()).unwrap();
        let events = records(&bytes);
        assert_eq!(events.len(), 4);
        // After nine bytes with the time.
        assert_eq!(events[0][9..], *b"\x10\x00\x1a\x0dbrain.Event:2");
        let scalars = b"\x10\xac\x02\x2a\x20\x0a\x11\x0a\x0atrain/loss\x15\0\0\0\x3f\x0a\x0b\x0a\x04rate\x15\0\0\x80\x3e";
        assert_eq!(events[2][9..], scalars[..]);
        for end in 0..bytes.len() {
            let integer = records(&bytes[..end]);
            assert_eq!(integer, events[..integer.len()]);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_are_named_in_their_order() {
        let folder = folder("order");
        let late = folder.join("events.out.tfevents.4000000000.elsewhere.1.0");
        fs::write(&late, "").unwrap();
        fs::write(folder.join("events.out.tfevents.none"), "").unwrap();
        let first = EventWriter::create(&folder, 1).unwrap();
        let second = EventWriter::create(&folder, 2).unwrap();
        assert!(*late < *first.path() && first.path() < second.path());
        fs::remove_dir_all(folder).unwrap();
    }

    const READER: &str = r#"
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0}).Reload()
for tag in sorted(run.Tags()["scalars"]):
    print(tag, *(f"{event.step}:{event.value:g}" for event in run.Scalars(tag)))
for tag in sorted(run.Tags()["histograms"]):
    for event in run.Histograms(tag):
        h = event.histogram_value
        print(tag, event.step, h.min, h.max, h.num, h.sum, h.sum_squares, *h.bucket_limit, *h.bucket)
"#;

    #[test]
    #[ignore = "needs TensorBoard"]
    fn tensorboard_reads_what_is_written() {
        let folder = folder("tensorboard");
        let mut writer = EventWriter::create(&folder, 1).unwrap();
        for step in [1, 2, 3] {
            writer.scalars(step, &[("train/loss", 1.0 / step as f64), ("größe", f64::NAN)]).unwrap();
        }
        writer.histogram(3, "weights/first", &Histogram::default()).unwrap();
        // Killed while writing, and resumed after step 2.
        let path = writer.path().to_owned();
        let integer = fs::read(&path).unwrap();
        fs::write(&path, [&integer[..], &integer[..20]].concat()).unwrap();
        let mut writer = EventWriter::create(&folder, 3).unwrap();
        writer.scalars(3, &[("train/loss", 0.25)]).unwrap();
        writer.scalars(4_000_000_000, &[("train/loss", 0.125)]).unwrap();
        writer.histogram(4, "weights/first", &Histogram::new(&[-1.0, 0.5, 1.0], 2)).unwrap();
        let python = std::env::var("TANDEM_PYTHON").unwrap_or_else(|_| "python3".into());
        let ran = Command::new(python).args(["-c", READER]).arg(&folder).output().unwrap();
        let expected = "größe 1:nan 2:nan\n\
                        train/loss 1:1 2:0.5 3:0.25 4000000000:0.125\n\
                        weights/first 4 -1.0 1.0 3.0 0.5 2.25 0.0 1.0 1.0 2.0\n";
        let output = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(output, expected, "{}", String::from_utf8_lossy(&ran.stderr));
        fs::remove_dir_all(folder).unwrap();
    }
}
