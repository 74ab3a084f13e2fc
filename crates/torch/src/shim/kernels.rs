//! Bindings to the kernels of `csrc/fused.cu`.

use super::{Handle, TorchError, gpu_function, handle};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{NonNull, null_mut};
use tandem_transformer::Activation;
use tch::Tensor;

/// CUDA source, compiled by NVRTC for the GPU of the machine.
const SOURCE: &str = include_str!("../../csrc/fused.cu");

type LastError = unsafe extern "C" fn() -> *const c_char;
#[cfg(test)]
type Compile = unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, c_int) -> c_int;
type NewProgram = unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, c_int) -> Handle;
type AddNorm = unsafe extern "C" fn(
    Handle,
    Handle,
    Handle,
    Handle,
    Handle,
    f64,
    f64,
    c_int,
    *mut Handle,
    *mut Handle,
) -> c_int;
type BiasActivation = unsafe extern "C" fn(Handle, Handle, Handle, *mut Handle) -> c_int;
type Attention = unsafe extern "C" fn(Handle, Handle, Handle, i64, *mut Handle) -> c_int;

/// Constants that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelShape {
    pub(crate) width: i64,
    pub(crate) head: i64,
    pub(crate) activation: Activation,
}

impl KernelShape {
    /// Value of the enumeration `Activation` in `csrc/fused.cu`.
    pub(crate) fn activation_id(self) -> c_int {
        match self.activation {
            Activation::Silu => 0,
            Activation::Mish => 1,
            Activation::Gelu => 2,
            Activation::SquaredRelu => 3,
            Activation::Relu => 4,
        }
    }
}

/// Compiled kernels for networks of one shape.
pub(crate) struct Kernels {
    program: NonNull<std::ffi::c_void>,
    error: LastError,
    add_norm: AddNorm,
    bias_activation: BiasActivation,
    attend: Attention,
}

/// Parameters of a normalisation.
#[derive(Clone, Copy)]
pub(crate) struct NormParameters<'a> {
    pub(crate) scale: &'a Tensor,
    pub(crate) offset: Option<&'a Tensor>,
    pub(crate) epsilon: f64,
    /// True for layer norm; false for RMS norm, which does not subtract the mean.
    pub(crate) centred: bool,
}

/// The residual stream after a branch was added, and its norm, which the next branch reads.
pub(crate) struct NormedSum {
    pub(crate) sum: Tensor,
    pub(crate) normed: Tensor,
}

/// The last error of the GPU library, in full, because a compiler's log has many lines.
fn last_error(error: LastError) -> TorchError {
    // SAFETY: the string is not changed before the next call.
    let text = unsafe { CStr::from_ptr(error()) };
    TorchError(text.to_string_lossy().trim_end().to_owned())
}

fn source() -> Result<CString, TorchError> {
    CString::new(SOURCE).map_err(|error| TorchError(error.to_string()))
}

fn optional(tensor: Option<&Tensor>) -> Handle {
    tensor.map_or(null_mut(), handle)
}

/// Compiles the kernels for a compute capability, 90 for Hopper, whether or not the machine has such a GPU.
#[cfg(test)]
pub(crate) fn compile(capability: i32, shape: KernelShape) -> Result<(), TorchError> {
    // SAFETY: these are their types in `csrc/fused.cpp` and `csrc/gpu.cpp`.
    let (compile, error): (Compile, LastError) =
        unsafe { (gpu_function(c"tandem_gpu_compile")?, gpu_function(c"tandem_gpu_error")?) };
    let (source, width, head) = (source()?, shape.width as c_int, shape.head as c_int);
    // SAFETY: the source is a C string that outlives the call.
    match unsafe { compile(source.as_ptr(), capability, width, head, shape.activation_id()) } {
        0 => Ok(()),
        _ => Err(last_error(error)),
    }
}

impl Kernels {
    /// Compiles the kernels for a GPU, or takes those of an earlier call. Needs the GPU library to be loaded.
    pub(crate) fn new(gpu: usize, shape: KernelShape) -> Result<Self, TorchError> {
        // SAFETY: these are their types in `csrc/fused.cpp` and `csrc/gpu.cpp`.
        let (new_program, error, add_norm, bias_activation, attend) = unsafe {
            let new_program: NewProgram = gpu_function(c"tandem_gpu_program")?;
            let error: LastError = gpu_function(c"tandem_gpu_error")?;
            let add_norm: AddNorm = gpu_function(c"tandem_gpu_add_norm")?;
            let bias_activation: BiasActivation = gpu_function(c"tandem_gpu_bias_activation")?;
            let attend: Attention = gpu_function(c"tandem_gpu_attention")?;
            (new_program, error, add_norm, bias_activation, attend)
        };
        let (source, width, head) = (source()?, shape.width as c_int, shape.head as c_int);
        // SAFETY: the source is a C string that outlives the call.
        let program =
            unsafe { new_program(source.as_ptr(), gpu as c_int, width, head, shape.activation_id()) };
        let program = NonNull::new(program).ok_or_else(|| last_error(error))?;
        Ok(Self { program, error, add_norm, bias_activation, attend })
    }

    /// `sum = x + factor * branch` and its norm. All tensors are bf16 and on the GPU of the kernels, rows
    /// have their width, and `branch` has the shape of `x`.
    pub(crate) fn add_norm(
        &self,
        x: &Tensor,
        branch: Option<&Tensor>,
        factor: f64,
        norm: NormParameters<'_>,
    ) -> Result<NormedSum, TorchError> {
        let (mut normed, mut sum) = (null_mut(), null_mut());
        // SAFETY: all tensors outlive the call, and the program lives as long as the process.
        let code = unsafe {
            (self.add_norm)(
                self.program.as_ptr(),
                handle(x),
                optional(branch),
                handle(norm.scale),
                optional(norm.offset),
                factor,
                norm.epsilon,
                norm.centred.into(),
                &raw mut normed,
                &raw mut sum,
            )
        };
        if code != 0 {
            return Err(last_error(self.error));
        }
        // SAFETY: both tensors were made for this caller alone; `sum` is only set if there is a branch.
        unsafe {
            let sum = if branch.is_some() { Tensor::from_ptr(sum.cast()) } else { x.shallow_clone() };
            Ok(NormedSum { sum, normed: Tensor::from_ptr(normed.cast()) })
        }
    }

    /// The activation of `x + bias`. Rows have the length of the bias, a multiple of eight; both tensors are
    /// bf16 and on the GPU of the kernels.
    pub(crate) fn bias_activation(&self, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TorchError> {
        let mut out = null_mut();
        // SAFETY: both tensors outlive the call, and the program lives as long as the process.
        let code =
            unsafe { (self.bias_activation)(self.program.as_ptr(), handle(x), optional(bias), &raw mut out) };
        match code {
            // SAFETY: the tensor was made for this caller alone.
            0 => Ok(unsafe { Tensor::from_ptr(out.cast()) }),
            _ => Err(last_error(self.error)),
        }
    }

    /// Attention among 64 squares, from queries, keys and values side by side, `[batch, 64, 3 * width]`, and
    /// a bias `[heads, 64, 64]` or `[batch, heads, 64, 64]`, all bf16 and on the GPU of the kernels.
    pub(crate) fn attend(
        &self,
        qkv: &Tensor,
        bias: Option<&Tensor>,
        heads: i64,
    ) -> Result<Tensor, TorchError> {
        let mut out = null_mut();
        // SAFETY: all tensors outlive the call, and the program lives as long as the process.
        let code =
            unsafe { (self.attend)(self.program.as_ptr(), handle(qkv), optional(bias), heads, &raw mut out) };
        match code {
            // SAFETY: the tensor was made for this caller alone.
            0 => Ok(unsafe { Tensor::from_ptr(out.cast()) }),
            _ => Err(last_error(self.error)),
        }
    }
}
