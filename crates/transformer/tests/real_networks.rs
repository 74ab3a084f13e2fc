//! Published networks of lc0, if they are available: set `TANDEM_DATA` to a folder that has them, or put it
//! at `../shared/data` beside the repository.

use std::path::PathBuf;
use tandem_transformer::Weights;

#[test]
fn maia_is_refused_as_a_residual_network() {
    let data = std::env::var_os("TANDEM_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")));
    for name in ["maia-1100.pb.gz", "maia-1900.pb.gz"] {
        let path = data.join("nets/lc0").join(name);
        if !path.exists() {
            eprintln!("skipped: {} is missing", path.display());
            continue;
        }
        let error = Weights::load(&path, None).unwrap_err().to_string();
        assert!(error.contains("a residual network with squeeze and excitation"), "{error}");
    }
}
