//! Text within XML, HTML and SVG.

/// Escapes the characters that have a meaning in XML and HTML, for content and for quoted attributes. Names come
/// from engines, files and recipes, so they may contain anything.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_ends_neither_an_element_nor_an_attribute() {
        assert_eq!(escape("a <b> & \"c\""), "a &lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(escape("&lt;"), "&amp;lt;"); // Escaped again, so that the reader sees what was given.
        assert_eq!(escape("½ Élő"), "½ Élő");
    }
}
