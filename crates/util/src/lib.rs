//! Tools that every other crate may use and no crate of chess should own: files, random numbers, checksums, formats
//! of bytes.
//!
//! This is the lowest layer of Tandem. Nothing here knows of boards or networks, so programs outside chess (the
//! studies of RNA and proteins) depend on it without depending on chess.
//!
//! - [`output`]: files that appear whole or not at all; [`input`]: files read through zstd or gzip if they are
//!   compressed;
//! - [`random`]: [`random::SplitMix`], the generator behind every seed, whose sequence never changes;
//! - [`checksum`]: checksums that detect damage, and [`fnv`]: a hash that recognises a file or a setting again;
//! - [`isa`]: [`isa::Isa`], the instruction sets that kernels are compiled for, detected at run time;
//! - [`journal`]: append-only files from which killed work resumes;
//! - [`markup`]: text within XML, HTML and SVG;
//! - [`plot`]: charts as SVG;
//! - [`protobuf`]: protocol buffers, for lc0's networks, ONNX and TensorBoard;
//! - [`test_data`]: files outside the repository that tests read.
//!
//! ```
//! use tandem_util::random::SplitMix;
//!
//! let mut random = SplitMix::new(7);
//! let first = random.next_u64();
//! assert_eq!(SplitMix::new(7).next_u64(), first); // A seed means the same sequence in every release.
//! assert!(random.below(6) < 6);
//! ```

pub mod checksum;
pub mod fnv;
pub mod input;
pub mod isa;
pub mod journal;
pub mod markup;
pub mod output;
pub mod plot;
pub mod protobuf;
pub mod random;
pub mod test_data;
