//! Helpers for writing SVG files by hand, shared by the charts and the attention maps.

use tandem_util::markup::escape;

/// The opening of a self-contained SVG file with a white background; the caller ends it with `</svg>`.
/// `label` is the accessible name.
pub(crate) fn begin(width: f64, height: f64, font_size: u32, label: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"{font_size}\" role=\"img\" aria-label=\"{}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(label)
    )
}

/// A coordinate with at most two decimal places and no trailing zeros, which keeps files small.
pub(crate) fn number(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
