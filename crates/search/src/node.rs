//! Types of nodes.

/// Type of a node, a compile-time parameter of the search so that conditions on it cost nothing.
pub(crate) trait NodeType {
    /// True for a node searched with an open window (PV node).
    const PV: bool;
    /// True for the root of the search.
    const ROOT: bool;
}

pub(crate) struct Root;
pub(crate) struct Pv;
pub(crate) struct NonPv;

impl NodeType for Root {
    const PV: bool = true;
    const ROOT: bool = true;
}

impl NodeType for Pv {
    const PV: bool = true;
    const ROOT: bool = false;
}

impl NodeType for NonPv {
    const PV: bool = false;
    const ROOT: bool = false;
}
