//! Bindings to `csrc`: functions of libtorch that tch does not have.

mod kernels;

#[cfg(test)]
pub(crate) use kernels::compile;
pub(crate) use kernels::{KernelShape, Kernels, NormParameters, NormedSum};

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;
use tch::Tensor;
use thiserror::Error;

/// An error of libtorch, with the first line of its message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("libtorch: {0}")]
pub struct TorchError(String);

impl TorchError {
    pub(crate) fn new(message: &str) -> Self {
        Self(message.into())
    }
}

type Handle = *mut c_void;

unsafe extern "C" {
    fn tandem_error() -> *const c_char;
    fn tandem_version() -> *const c_char;
    fn tandem_load_cuda() -> c_int;
    fn tandem_load_gpu_library(path: *const c_char) -> c_int;
    fn tandem_gpu_function(name: *const c_char) -> Handle;
    fn tandem_synchronize(device: c_int) -> c_int;
    fn tandem_peak_memory(device: c_int) -> i64;
    fn tandem_allow_tf32(allow: c_int) -> c_int;
    fn tandem_pin(tensor: Handle) -> c_int;
    fn tandem_adamw(
        params: Handle,
        grads: Handle,
        exp_avg: Handle,
        exp_avg_sq: Handle,
        steps: Handle,
        lr: Handle,
        beta1: f64,
        beta2: f64,
        weight_decay: f64,
        epsilon: f64,
    ) -> c_int;
    fn tandem_group(
        rank: c_int,
        world_size: c_int,
        address: *const c_char,
        port: c_int,
        is_store_host: c_int,
        on_gpu: c_int,
        device: c_int,
        timeout_ms: i64,
    ) -> Handle;
    fn tandem_sum(group: Handle, tensor: Handle) -> c_int;
    fn tandem_broadcast(group: Handle, tensor: Handle) -> c_int;
    fn tandem_group_free(group: Handle);
}

/// The GPU library, compiled from `csrc/gpu.cpp` and `csrc/fused.cpp`; empty if its headers were missing.
static GPU_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gpu.so"));

/// Version of libtorch that this program was built with, for example `2.11.0`.
pub fn version() -> String {
    // SAFETY: the string is a constant of the library.
    unsafe { CStr::from_ptr(tandem_version()) }.to_string_lossy().into_owned()
}

fn last_error() -> TorchError {
    error_from(tandem_error)
}

/// The last error of a library. libtorch appends a C++ stack trace, so only the first line is kept.
fn error_from(error: unsafe extern "C" fn() -> *const c_char) -> TorchError {
    // SAFETY: the string belongs to this thread and is not changed before the next call.
    let text = unsafe { CStr::from_ptr(error()) };
    let text = text.to_string_lossy();
    TorchError(text.lines().next().unwrap_or_default().to_owned())
}

fn check(code: c_int) -> Result<(), TorchError> {
    if code == 0 { Ok(()) } else { Err(last_error()) }
}

fn handle(tensor: &Tensor) -> Handle {
    tensor.as_ptr().cast_mut().cast()
}

/// Loads libtorch_cuda, which registers NVIDIA GPUs with libtorch.
pub(crate) fn load_cuda() -> Result<(), TorchError> {
    // SAFETY: loading the library runs initialisers that are written for that.
    check(unsafe { tandem_load_cuda() })
}

/// Loads the GPU library, which is embedded in the program. Only the first call does so; later ones return
/// its result.
pub(crate) fn load_gpu_library() -> Result<(), TorchError> {
    static LOADED: OnceLock<Result<(), TorchError>> = OnceLock::new();
    LOADED.get_or_init(open_gpu_library).clone()
}

#[cfg(not(target_os = "linux"))]
fn open_gpu_library() -> Result<(), TorchError> {
    Err(TorchError("the GPU library is only available on Linux".into()))
}

#[cfg(target_os = "linux")]
fn open_gpu_library() -> Result<(), TorchError> {
    use std::io::Write as _;
    use std::os::fd::{AsRawFd, FromRawFd};
    let failed = |message: String| TorchError(format!("the GPU library cannot be loaded: {message}"));
    if GPU_LIBRARY.is_empty() {
        return Err(failed("this program was built without the headers of CUDA or NCCL".into()));
    }
    // SAFETY: the name is a C string, and the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"tandem-gpu".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(failed(std::io::Error::last_os_error().to_string()));
    }
    // SAFETY: the descriptor was just created and has no other owner.
    let mut file = unsafe { std::fs::File::from_raw_fd(descriptor) };
    file.write_all(GPU_LIBRARY).map_err(|error| failed(error.to_string()))?;
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| failed(error.to_string()))?;
    // SAFETY: the path is a C string; the library was built together with this program.
    check(unsafe { tandem_load_gpu_library(path.as_ptr()) })
}

/// Waits until a GPU has finished all queued work.
pub(crate) fn synchronize(gpu: usize) -> Result<(), TorchError> {
    // SAFETY: an index without a GPU is refused.
    check(unsafe { tandem_synchronize(gpu as c_int) })
}

/// Peak number of bytes that tensors have occupied on a GPU; `None` if it is not known.
pub(crate) fn peak_memory(device: usize) -> Option<u64> {
    // SAFETY: an index without a GPU is answered with -1.
    u64::try_from(unsafe { tandem_peak_memory(device as c_int) }).ok()
}

/// Moves a CPU tensor to page-locked memory, from which a GPU copies asynchronously.
pub(crate) fn pin(tensor: &mut Tensor) -> Result<(), TorchError> {
    // SAFETY: the handle is a tensor, borrowed mutably while another takes its place.
    check(unsafe { tandem_pin(handle(tensor)) })
}

/// Allows TF32 in f32 matrix products: inputs are rounded to 10 bits of mantissa, as GPUs do it several times
/// faster.
pub(crate) fn allow_tf32(allow: bool) -> Result<(), TorchError> {
    // SAFETY: the function only sets a flag.
    check(unsafe { tandem_allow_tf32(allow.into()) })
}

/// Hyperparameters of AdamW (Loshchilov and Hutter 2019).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) weight_decay: f64,
    pub(crate) epsilon: f64,
}

/// Tensors of an AdamW step: four flat ones of the same length and type, and the scalars `steps` and `lr`.
pub(crate) struct AdamWTensors<'a> {
    pub(crate) params: &'a Tensor,
    pub(crate) grads: &'a Tensor,
    pub(crate) exp_avg: &'a Tensor,
    pub(crate) exp_avg_sq: &'a Tensor,
    pub(crate) steps: &'a Tensor,
    pub(crate) lr: &'a Tensor,
}

impl AdamW {
    /// Updates parameters and state in place, with libtorch's fused kernel.
    pub(crate) fn step(&self, tensors: &AdamWTensors<'_>) -> Result<(), TorchError> {
        // SAFETY: all tensors outlive the call; libtorch refuses shapes and types that do not match.
        check(unsafe {
            tandem_adamw(
                handle(tensors.params),
                handle(tensors.grads),
                handle(tensors.exp_avg),
                handle(tensors.exp_avg_sq),
                handle(tensors.steps),
                handle(tensors.lr),
                self.beta1,
                self.beta2,
                self.weight_decay,
                self.epsilon,
            )
        })
    }
}

/// Rendezvous of a process group: address, port and place of this process.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) address: String,
    pub(crate) port: u16,
    /// True if this process hosts the TCP store through which the others find each other.
    pub(crate) is_store_host: bool,
    /// Index of the GPU for NCCL; `None` selects Gloo, which reduces in CPU memory.
    pub(crate) gpu: Option<usize>,
    pub(crate) timeout: std::time::Duration,
}

/// A process group of libtorch's c10d.
pub(crate) struct Group(NonNull<c_void>);

impl Group {
    pub(crate) fn join(rendezvous: &Rendezvous) -> Result<Self, TorchError> {
        let address =
            CString::new(rendezvous.address.as_str()).map_err(|error| TorchError(error.to_string()))?;
        // SAFETY: the address is a C string that outlives the call.
        let group = unsafe {
            tandem_group(
                rendezvous.rank as c_int,
                rendezvous.world_size as c_int,
                address.as_ptr(),
                c_int::from(rendezvous.port),
                rendezvous.is_store_host.into(),
                rendezvous.gpu.is_some().into(),
                rendezvous.gpu.unwrap_or(0) as c_int,
                rendezvous.timeout.as_millis() as i64,
            )
        };
        NonNull::new(group).map(Self).ok_or_else(last_error)
    }

    /// Replaces a tensor by its sum over all ranks (all-reduce).
    pub(crate) fn all_reduce_sum(&self, tensor: &Tensor) -> Result<(), TorchError> {
        // SAFETY: group and tensor outlive the call.
        check(unsafe { tandem_sum(self.0.as_ptr(), handle(tensor)) })
    }

    /// Replaces a tensor by that of rank 0.
    pub(crate) fn broadcast(&self, tensor: &Tensor) -> Result<(), TorchError> {
        // SAFETY: as above.
        check(unsafe { tandem_broadcast(self.0.as_ptr(), handle(tensor)) })
    }
}

// SAFETY: libtorch's process groups may be used from any thread, by one at a time.
unsafe impl Send for Group {}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group was made by `tandem_group` and is not used afterwards.
        unsafe { tandem_group_free(self.0.as_ptr()) };
    }
}

/// A CUDA graph: kernels that were captured once and are launched together.
pub(crate) struct Graph {
    graph: NonNull<c_void>,
    functions: GraphFunctions,
}

type GraphFunction = unsafe extern "C" fn(Handle) -> c_int;

#[derive(Clone, Copy)]
struct GraphFunctions {
    error: unsafe extern "C" fn() -> *const c_char,
    free: unsafe extern "C" fn(Handle),
    enter_stream: GraphFunction,
    leave_stream: GraphFunction,
    begin_capture: GraphFunction,
    end_capture: GraphFunction,
    replay: GraphFunction,
}

/// Looks up a function of the GPU library.
///
/// # Safety
/// `F` must be the type of that function.
unsafe fn gpu_function<F: Copy>(name: &CStr) -> Result<F, TorchError> {
    const { assert!(size_of::<F>() == size_of::<Handle>()) };
    // SAFETY: the name is a C string.
    let address = unsafe { tandem_gpu_function(name.as_ptr()) };
    if address.is_null() {
        return Err(TorchError(format!(
            "the GPU library is not loaded, or has no function {}",
            name.to_string_lossy()
        )));
    }
    // SAFETY: the caller guarantees the type, which has the size of a pointer.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

impl Graph {
    /// An empty graph for a GPU. Needs the GPU library to be loaded.
    pub(crate) fn new(gpu: usize) -> Result<Self, TorchError> {
        // SAFETY: these are their types in `csrc/gpu.cpp`.
        let (make, functions) = unsafe {
            let make: unsafe extern "C" fn(c_int) -> Handle = gpu_function(c"tandem_gpu_graph")?;
            let functions = GraphFunctions {
                error: gpu_function(c"tandem_gpu_error")?,
                free: gpu_function(c"tandem_gpu_graph_free")?,
                enter_stream: gpu_function(c"tandem_gpu_graph_enter_stream")?,
                leave_stream: gpu_function(c"tandem_gpu_graph_leave_stream")?,
                begin_capture: gpu_function(c"tandem_gpu_graph_begin_capture")?,
                end_capture: gpu_function(c"tandem_gpu_graph_end_capture")?,
                replay: gpu_function(c"tandem_gpu_graph_replay")?,
            };
            (make, functions)
        };
        // SAFETY: an index without a GPU is answered with a null pointer.
        let graph = NonNull::new(unsafe { make(gpu as c_int) });
        let graph = graph.ok_or_else(|| error_from(functions.error))?;
        Ok(Self { graph, functions })
    }

    fn call(&self, function: GraphFunction) -> Result<(), TorchError> {
        // SAFETY: the graph lives as long as `self`.
        if unsafe { function(self.graph.as_ptr()) } == 0 {
            return Ok(());
        }
        Err(error_from(self.functions.error))
    }

    /// Runs work on the graph's own stream. Work must have run there at least once before it is captured.
    pub(crate) fn on_stream<T>(&self, body: impl FnOnce() -> Result<T, TorchError>) -> Result<T, TorchError> {
        self.bracketed([self.functions.enter_stream, self.functions.leave_stream], body)
    }

    /// Captures the GPU work that a closure queues. To be called within [`Graph::on_stream`].
    pub(crate) fn capture<T>(&self, body: impl FnOnce() -> Result<T, TorchError>) -> Result<T, TorchError> {
        self.bracketed([self.functions.begin_capture, self.functions.end_capture], body)
    }

    /// Runs work between two calls. The second is made even if the work panics, as tch does when memory runs
    /// out.
    fn bracketed<T>(
        &self,
        [enter, leave]: [GraphFunction; 2],
        body: impl FnOnce() -> Result<T, TorchError>,
    ) -> Result<T, TorchError> {
        struct LeaveOnDrop<'a>(&'a Graph, GraphFunction);
        impl Drop for LeaveOnDrop<'_> {
            fn drop(&mut self) {
                let _ = self.0.call(self.1);
            }
        }
        self.call(enter)?;
        let guard = LeaveOnDrop(self, leave);
        let result = body();
        std::mem::forget(guard);
        self.call(leave)?;
        result
    }

    /// Launches the captured work again.
    pub(crate) fn replay(&self) -> Result<(), TorchError> {
        self.call(self.functions.replay)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the graph was made by `tandem_gpu_graph` and is not used afterwards.
        unsafe { (self.functions.free)(self.graph.as_ptr()) };
    }
}

impl From<tch::TchError> for TorchError {
    fn from(error: tch::TchError) -> Self {
        let text = error.to_string();
        Self(text.lines().next().unwrap_or_default().to_owned())
    }
}
