//! Published networks of lc0.

use tandem_transformer::Weights;
use tandem_util::test_data;

#[test]
#[ignore = "needs data"]
fn maia_is_refused_as_a_residual_network() {
    for name in ["maia-1100.pb.gz", "maia-1900.pb.gz"] {
        let path = test_data::path(&format!("nets/lc0/{name}"));
        let error = Weights::load(path, None).unwrap_err().to_string();
        assert!(error.contains("a residual network with squeeze and excitation"), "{error}");
    }
}
