//! What training transformers needs: a lab with libtorch in it.

use super::Finding;

/// What this lab can train them on.
#[cfg(feature = "torch")]
pub(super) fn transformers() -> Vec<Finding> {
    use tandem_torch::{Compute, version};

    let card = match Compute::named("cuda") {
        Ok(compute) if compute.has_graphs() => Finding::ok("a card", compute.name()),
        Ok(compute) => {
            let told = format!("{}, but graphs and sums over cards are not in this build", compute.name());
            Finding::missing("a card", format!("{told}: scripts/libtorch.sh fetches the headers"))
        }
        Err(error) => Finding::missing("a card", format!("{error}; processors do, slowly")),
    };
    let apple = match Compute::named("mps") {
        Ok(compute) => Finding::ok("Apple's card", compute.name()),
        Err(_) => Finding::missing("Apple's card", "none that libtorch knows"),
    };
    vec![Finding::ok("libtorch", format!("{}, built in", version())), card, apple]
}

/// What is missing.
#[cfg(not(feature = "torch"))]
pub(super) fn transformers() -> Vec<Finding> {
    let told =
        "this lab was built without: `scripts/libtorch.sh FOLDER` fetches it and says how to build with it";
    vec![Finding::missing("libtorch", told)]
}
