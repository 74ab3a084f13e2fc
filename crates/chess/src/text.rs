//! Outside text.

/// Outside text, short enough to quote in a message.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(20).collect()
}

/// As [`clip`], for bytes of any encoding.
pub(crate) fn clip_bytes(text: &[u8]) -> String {
    // Five bytes a character is more than any encoding needs, and a character cut in two is past the twenty.
    clip(&decode(&text[..text.len().min(100)]))
}

/// Text in UTF-8, or else in Latin-1, as older chess files are.
pub(crate) fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_are_read() {
        assert_eq!(decode("Réti".as_bytes()), "Réti");
        assert_eq!(decode(b"R\xE9ti"), "Réti");
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(clip(&"é".repeat(30)), "é".repeat(20));
        assert_eq!(clip_bytes("abc".as_bytes()), "abc");
        assert_eq!(clip_bytes(&[b'a'; 1000]).len(), 20);
    }
}
