//! Former names of UCI options.
//!
//! `uci` lists only the present names, but scripts, match files and lab-books still set options by the old
//! ones, so `setoption` goes on accepting them, without a message. Parameters of a tuning build have a table
//! of their own, in [`tandem_search::params`], because tuning journals use it too.

/// Former names of options and the present ones.
const RENAMED: [(&str, &str); 3] =
    [("Search", "SearchMode"), ("Kernels", "SIMD"), ("Blend", "StrategistBlend")];

/// Present name of an option or a tuned parameter that may be given by a former name, in upper or lower case;
/// any other name is returned unchanged. For example `kernels` gives `SIMD`.
pub(crate) fn current_name(name: &str) -> &str {
    let renamed = RENAMED.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
    renamed.map_or_else(|| tandem_search::params::current_name(name), |&(_, new)| new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_names_give_the_present_ones() {
        for (old, new) in RENAMED {
            assert_eq!((current_name(old), current_name(&old.to_ascii_lowercase())), (new, new));
            assert_eq!(current_name(new), new);
        }
        assert_eq!(current_name("counsel_depth"), "strategist_depth");
        assert_eq!(current_name("Move Overhead"), "Move Overhead");
    }
}
