//! Whole matches between an engine that misbehaves on request and itself.

mod misbehaving;
mod records;
mod resume;
mod setup;
