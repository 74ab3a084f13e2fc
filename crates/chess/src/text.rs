//! Text from outside: of unknown encoding and length, made safe for messages.

/// Text shortened so that it can be quoted in a message.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(20).collect()
}

/// Like [`clip`], for bytes of any encoding.
pub(crate) fn clip_bytes(text: &[u8]) -> String {
    // Five bytes for each character, more than any encoding needs.
    const ENOUGH: usize = 100;
    if text.len() <= ENOUGH {
        return clip(&decode(text));
    }
    // The cut may split a character, which must not make the whole text be decoded as Latin-1.
    let start = match std::str::from_utf8(&text[..ENOUGH]) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => ENOUGH,
    };
    clip(&decode(&text[..start]))
}

/// The text without byte order marks, which occur at the start of files and where files were concatenated.
pub(crate) fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text)
}

/// Decodes UTF-8, or else Latin-1, which older chess files use. It cannot fail, because every byte is valid
/// Latin-1.
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
        let odd = "a".to_owned() + &"é".repeat(60);
        assert_eq!(clip_bytes(odd.as_bytes()), clip(&odd), "a hundred bytes end within a letter");
        assert_eq!(clip_bytes(b"Caf\xE9"), "Café");
    }
}
