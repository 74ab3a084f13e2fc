//! Checks what training transformers needs: a build with libtorch, and a device that it supports.

use super::Finding;

/// The devices that the libtorch in this build can train on.
#[cfg(feature = "torch")]
pub(super) fn transformers() -> Vec<Finding> {
    use tandem_torch::{Compute, version};

    let nvidia = match Compute::from_name("cuda") {
        Ok(compute) if compute.supports_graphs() => Finding::ok("NVIDIA GPU", compute.name()),
        Ok(compute) => {
            let detail =
                format!("{}, but CUDA graphs and multi-GPU training are not in this build", compute.name());
            Finding::missing("NVIDIA GPU", format!("{detail}: scripts/libtorch.sh fetches the headers"))
        }
        Err(error) => Finding::missing("NVIDIA GPU", format!("{error}; the CPU works too, slowly")),
    };
    let apple = match Compute::from_name("mps") {
        Ok(compute) => Finding::ok("Apple GPU", compute.name()),
        Err(_) => Finding::missing("Apple GPU", "none that libtorch supports"),
    };
    vec![Finding::ok("libtorch", format!("{}, built in", version())), nvidia, apple]
}

/// Reports that this build has no libtorch, and how to get it.
#[cfg(not(feature = "torch"))]
pub(super) fn transformers() -> Vec<Finding> {
    let detail = "not in this build: `scripts/libtorch.sh FOLDER` downloads it and says how to build with it";
    vec![Finding::missing("libtorch", detail)]
}
