//! What `csrc` adds to tch.

mod kernels;

#[cfg(test)]
pub(crate) use kernels::compile;
pub(crate) use kernels::{Joined, KernelShape, Kernels, NormNumbers};

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;
use tch::Tensor;
use thiserror::Error;

/// What libtorch says when it cannot do something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("libtorch: {0}")]
pub struct TorchError(String);

impl TorchError {
    pub(crate) fn new(problem: &str) -> Self {
        Self(problem.into())
    }
}

type Handle = *mut c_void;

unsafe extern "C" {
    fn tandem_error() -> *const c_char;
    fn tandem_version() -> *const c_char;
    fn tandem_load_cuda() -> c_int;
    fn tandem_load_card(path: *const c_char) -> c_int;
    fn tandem_card_function(name: *const c_char) -> Handle;
    fn tandem_synchronise(device: c_int) -> c_int;
    fn tandem_peak_memory(device: c_int) -> i64;
    fn tandem_allow_tf32(allow: c_int) -> c_int;
    fn tandem_pin(tensor: Handle) -> c_int;
    fn tandem_adamw(
        numbers: Handle,
        slopes: Handle,
        first: Handle,
        second: Handle,
        steps: Handle,
        rate: Handle,
        beta1: f64,
        beta2: f64,
        decay: f64,
        epsilon: f64,
    ) -> c_int;
    fn tandem_group(
        rank: c_int,
        ranks: c_int,
        address: *const c_char,
        port: c_int,
        holds_store: c_int,
        on_card: c_int,
        device: c_int,
        milliseconds: i64,
    ) -> Handle;
    fn tandem_sum(group: Handle, tensor: Handle) -> c_int;
    fn tandem_broadcast(group: Handle, tensor: Handle) -> c_int;
    fn tandem_group_free(group: Handle);
}

/// The library of `csrc/card.cpp`; empty where it could not be built.
static CARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/card.so"));

/// The libtorch that this was built for.
pub fn version() -> String {
    // SAFETY: a string that is part of the program.
    unsafe { CStr::from_ptr(tandem_version()) }.to_string_lossy().into_owned()
}

fn told() -> TorchError {
    told_by(tandem_error)
}

/// What a part of the shim has said last.
fn told_by(error: unsafe extern "C" fn() -> *const c_char) -> TorchError {
    // SAFETY: it is a string of this thread, which nobody changes before the next call.
    let text = unsafe { CStr::from_ptr(error()) };
    // The rest is a trace of C++ frames.
    let text = text.to_string_lossy();
    TorchError(text.lines().next().unwrap_or_default().to_owned())
}

fn done(code: c_int) -> Result<(), TorchError> {
    if code == 0 { Ok(()) } else { Err(told()) }
}

fn handle(tensor: &Tensor) -> Handle {
    tensor.as_ptr().cast_mut().cast()
}

/// Makes the cards of this machine known to libtorch.
pub(crate) fn load_cuda() -> Result<(), TorchError> {
    // SAFETY: it opens a library whose initialisers are made for that.
    done(unsafe { tandem_load_cuda() })
}

/// Opens the part for cards, which the program carries, once.
pub(crate) fn load_card() -> Result<(), TorchError> {
    static OPENED: OnceLock<Result<(), TorchError>> = OnceLock::new();
    OPENED.get_or_init(open_card).clone()
}

#[cfg(not(target_os = "linux"))]
fn open_card() -> Result<(), TorchError> {
    Err(TorchError("the part for cards is for Linux".into()))
}

#[cfg(target_os = "linux")]
fn open_card() -> Result<(), TorchError> {
    use std::io::Write as _;
    use std::os::fd::{AsRawFd, FromRawFd};
    let failed = |problem: String| TorchError(format!("the part for cards cannot be opened: {problem}"));
    if CARD.is_empty() {
        return Err(failed("this program was built without its headers".into()));
    }
    // SAFETY: the name is a string, and the result is looked at.
    let descriptor = unsafe { libc::memfd_create(c"tandem-card".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(failed(std::io::Error::last_os_error().to_string()));
    }
    // SAFETY: it was just made, and belongs to nobody else.
    let mut file = unsafe { std::fs::File::from_raw_fd(descriptor) };
    file.write_all(CARD).map_err(|error| failed(error.to_string()))?;
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| failed(error.to_string()))?;
    // SAFETY: the path is a string; the library is the one that was built with this program.
    done(unsafe { tandem_load_card(path.as_ptr()) })
}

/// Waits until a card has done all it was asked.
pub(crate) fn synchronise(card: usize) -> Result<(), TorchError> {
    // SAFETY: a card that there is none of is refused.
    done(unsafe { tandem_synchronise(card as c_int) })
}

/// The most bytes of a card that tensors have taken at one time.
pub(crate) fn peak_memory(device: usize) -> Option<u64> {
    // SAFETY: a device that there is none of is answered with -1.
    u64::try_from(unsafe { tandem_peak_memory(device as c_int) }).ok()
}

/// Puts a tensor of the processor into memory that a card fetches from by itself.
pub(crate) fn pin(tensor: &mut Tensor) -> Result<(), TorchError> {
    // SAFETY: the handle is a tensor, which nobody else looks at while another is put in its place.
    done(unsafe { tandem_pin(handle(tensor)) })
}

/// Whether products of numbers of 32 bits may be rounded as cards like it.
pub(crate) fn allow_tf32(allow: bool) -> Result<(), TorchError> {
    // SAFETY: it sets a flag.
    done(unsafe { tandem_allow_tf32(allow.into()) })
}

/// The numbers of AdamW.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) decay: f64,
    pub(crate) epsilon: f64,
}

/// What AdamW works on: rows of one length and kind, and two single numbers.
pub(crate) struct AdamWRows<'a> {
    pub(crate) numbers: &'a Tensor,
    pub(crate) slopes: &'a Tensor,
    pub(crate) first: &'a Tensor,
    pub(crate) second: &'a Tensor,
    pub(crate) steps: &'a Tensor,
    pub(crate) rate: &'a Tensor,
}

impl AdamW {
    /// Makes a step.
    pub(crate) fn step(&self, rows: &AdamWRows<'_>) -> Result<(), TorchError> {
        // SAFETY: all are tensors that live longer than the call; libtorch refuses what does not fit together.
        done(unsafe {
            tandem_adamw(
                handle(rows.numbers),
                handle(rows.slopes),
                handle(rows.first),
                handle(rows.second),
                handle(rows.steps),
                handle(rows.rate),
                self.beta1,
                self.beta2,
                self.decay,
                self.epsilon,
            )
        })
    }
}

/// Where the processes of a run meet.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) address: String,
    pub(crate) port: u16,
    /// This process holds the store in which they find each other.
    pub(crate) holds_store: bool,
    /// The card that sums are made on; the processor's memory otherwise.
    pub(crate) card: Option<usize>,
    pub(crate) patience: std::time::Duration,
}

/// Processes that train together.
pub(crate) struct Group(NonNull<c_void>);

impl Group {
    pub(crate) fn join(meeting: &Meeting) -> Result<Self, TorchError> {
        let address =
            CString::new(meeting.address.as_str()).map_err(|error| TorchError(error.to_string()))?;
        // SAFETY: the address is a string that lives longer than the call.
        let group = unsafe {
            tandem_group(
                meeting.rank as c_int,
                meeting.ranks as c_int,
                address.as_ptr(),
                c_int::from(meeting.port),
                meeting.holds_store.into(),
                meeting.card.is_some().into(),
                meeting.card.unwrap_or(0) as c_int,
                meeting.patience.as_millis() as i64,
            )
        };
        NonNull::new(group).map(Self).ok_or_else(told)
    }

    /// Makes a tensor the sum of all ranks'.
    pub(crate) fn sum(&self, tensor: &Tensor) -> Result<(), TorchError> {
        // SAFETY: group and tensor live longer than the call.
        done(unsafe { tandem_sum(self.0.as_ptr(), handle(tensor)) })
    }

    /// Makes a tensor that of rank 0.
    pub(crate) fn broadcast(&self, tensor: &Tensor) -> Result<(), TorchError> {
        // SAFETY: as above.
        done(unsafe { tandem_broadcast(self.0.as_ptr(), handle(tensor)) })
    }
}

// SAFETY: libtorch's groups may be used from any thread, by one at a time.
unsafe impl Send for Group {}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: it was made by `tandem_group` and is used no more.
        unsafe { tandem_group_free(self.0.as_ptr()) };
    }
}

/// Kernels of a card that were recorded once and are started together.
pub(crate) struct Graph {
    graph: NonNull<c_void>,
    functions: GraphFunctions,
}

type OnGraph = unsafe extern "C" fn(Handle) -> c_int;

#[derive(Clone, Copy)]
struct GraphFunctions {
    error: unsafe extern "C" fn() -> *const c_char,
    free: unsafe extern "C" fn(Handle),
    step_aside: OnGraph,
    step_back: OnGraph,
    record: OnGraph,
    recorded: OnGraph,
    replay: OnGraph,
}

/// A function of the part for cards.
///
/// # Safety
/// `F` must be the type of that function.
unsafe fn card_function<F: Copy>(name: &CStr) -> Result<F, TorchError> {
    const { assert!(size_of::<F>() == size_of::<Handle>()) };
    // SAFETY: the name is a string.
    let address = unsafe { tandem_card_function(name.as_ptr()) };
    if address.is_null() {
        return Err(TorchError(format!(
            "the part for cards is not open, or has no {}",
            name.to_string_lossy()
        )));
    }
    // SAFETY: the caller vouches for the type, which has the size of an address.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

impl Graph {
    /// An empty one for a card. The part for cards must be open.
    pub(crate) fn new(card: usize) -> Result<Self, TorchError> {
        // SAFETY: these are their types in `csrc/card.cpp`.
        let (make, functions) = unsafe {
            let make: unsafe extern "C" fn(c_int) -> Handle = card_function(c"tandem_card_graph")?;
            let functions = GraphFunctions {
                error: card_function(c"tandem_card_error")?,
                free: card_function(c"tandem_card_graph_free")?,
                step_aside: card_function(c"tandem_card_step_aside")?,
                step_back: card_function(c"tandem_card_step_back")?,
                record: card_function(c"tandem_card_record")?,
                recorded: card_function(c"tandem_card_recorded")?,
                replay: card_function(c"tandem_card_replay")?,
            };
            (make, functions)
        };
        // SAFETY: a card that there is none of is answered with nothing.
        let graph = NonNull::new(unsafe { make(card as c_int) });
        let graph = graph.ok_or_else(|| told_by(functions.error))?;
        Ok(Self { graph, functions })
    }

    fn call(&self, function: OnGraph) -> Result<(), TorchError> {
        // SAFETY: the graph lives as long as `self`.
        if unsafe { function(self.graph.as_ptr()) } == 0 {
            return Ok(());
        }
        Err(told_by(self.functions.error))
    }

    /// Runs something on the graph's own stream: what is to be recorded must have been run there before.
    pub(crate) fn aside<T>(&self, work: impl FnOnce() -> Result<T, TorchError>) -> Result<T, TorchError> {
        self.between([self.functions.step_aside, self.functions.step_back], work)
    }

    /// Records what is done within; to be called aside.
    pub(crate) fn record<T>(&self, work: impl FnOnce() -> Result<T, TorchError>) -> Result<T, TorchError> {
        self.between([self.functions.record, self.functions.recorded], work)
    }

    /// Does something between two calls, of which the second is made even if it panics, as tch does where memory ends.
    fn between<T>(
        &self,
        [before, after]: [OnGraph; 2],
        work: impl FnOnce() -> Result<T, TorchError>,
    ) -> Result<T, TorchError> {
        struct After<'a>(&'a Graph, OnGraph);
        impl Drop for After<'_> {
            fn drop(&mut self) {
                let _ = self.0.call(self.1);
            }
        }
        self.call(before)?;
        let ended = After(self, after);
        let result = work();
        std::mem::forget(ended);
        self.call(after)?;
        result
    }

    /// Does it again.
    pub(crate) fn replay(&self) -> Result<(), TorchError> {
        self.call(self.functions.replay)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it was made by `tandem_card_graph` and is used no more.
        unsafe { (self.functions.free)(self.graph.as_ptr()) };
    }
}

impl From<tch::TchError> for TorchError {
    fn from(error: tch::TchError) -> Self {
        let text = error.to_string();
        Self(text.lines().next().unwrap_or_default().to_owned())
    }
}
