//! Training data of every format. Random bytes are either refused with messages or read, and records that
//! were read survive a round trip in the same format. The first byte selects the format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_data::*;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let format = Format::ALL[usize::from(kind) % Format::ALL.len()];
    let options = Options::default();
    if let Format::Bag | Format::Bagz = format {
        let path = std::env::temp_dir().join(format!("tandem-fuzz-{}.{format}", std::process::id()));
        std::fs::write(&path, bytes).expect("space for a file");
        for bag in [BagKind::ActionValue, BagKind::StateValue, BagKind::BehavioralCloning] {
            let source =
                Source { path: path.clone(), format, options: Options { bag: Some(bag), ..options.clone() } };
            let mut reader = RecordReader::new(vec![source], 1, OnError::Skip, None, Cursor::default());
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
        // Formats that do not check positions may write illegal ones, which the reader then refuses.
        if problems.is_empty() {
            assert_eq!(again.len(), fit.len());
            assert!(
                again.iter().zip(&fit).all(|(again, record)| again.mv == record.mv || record.mv.is_none())
            );
        }
    }
});
