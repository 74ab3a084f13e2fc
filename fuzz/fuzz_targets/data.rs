//! Training data of every format: whatever the bytes are, they are refused with messages or read; what was read can be
//! written in the same format and comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_data::*;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let format = Format::ALL[usize::from(kind) % Format::ALL.len()];
    let options = Options::default();
    if let Format::Bag | Format::Bagz = format {
        let path = std::env::temp_dir().join(format!("tandem-fuzz-{}.{format}", std::process::id()));
        std::fs::write(&path, bytes).expect("room for a file");
        for bag in [BagKind::ActionValue, BagKind::StateValue, BagKind::BehavioralCloning] {
            let source =
                Source { path: path.clone(), format, options: Options { bag: Some(bag), ..options.clone() } };
            let mut reader = Reader::new(vec![source], 1, OnError::Skip, None, Cursor::default());
            while let Some(Ok(_)) = reader.next_block() {}
        }
        return;
    }
    let source = Source { path: "x.tar".into(), format, options };
    let (records, _) = source.decode_bytes(bytes);
    let mut encoder = Encoder::new(&source);
    let mut written = Vec::new();
    let mut fit = Vec::new();
    for record in &records {
        let _ = (record.position.board(), record.flipped(), record.mirrored());
        assert_eq!(Record::unpack(&record.pack()), *record);
        if encoder.push(record, &mut written).is_ok() {
            fit.push(*record);
        }
    }
    if encoder.finish(&mut written).is_ok() {
        let (again, problems) = source.decode_bytes(&written);
        // Positions that break the rules may be written by formats that do not ask, and refused by the reader.
        if problems.is_empty() {
            assert_eq!(again.len(), fit.len());
            assert!(
                again.iter().zip(&fit).all(|(again, record)| again.mv == record.mv || record.mv.is_none())
            );
        }
    }
});
