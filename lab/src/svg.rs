//! What all drawings share.

use tandem_arena::report::escape;

/// The beginning of a file that needs no other, on white paper. It ends with `</svg>`.
pub(crate) fn begin(width: f64, height: f64, font_size: u32, label: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"{font_size}\" role=\"img\" aria-label=\"{}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(label)
    )
}

/// A number with as many places as an eye can tell.
pub(crate) fn number(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
