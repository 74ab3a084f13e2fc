//! EPD lines. Any line is either a position with operations or an error, and a line that was read survives a
//! round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_chess::epd;

fuzz_target!(|text: &str| {
    if let Ok(line) = epd::parse(text) {
        let written = line.to_string();
        assert_eq!(epd::parse(&written).as_ref(), Ok(&line), "{written}");
        let _ =
            (line.bm(), line.am(), line.id(), line.dm(), line.ce(), line.comment(0), line.perft().count());
    }
    for line in epd::read(text.as_bytes()) {
        let _ = line;
    }
});
