//! Calls of the kernels of `csrc/fused.cu`.

use super::{Handle, TorchError, card_function, handle};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{NonNull, null_mut};
use tandem_transformer::Activation;
use tch::Tensor;

/// What is compiled where there is a card.
const SOURCE: &str = include_str!("../../csrc/fused.cu");

type Error = unsafe extern "C" fn() -> *const c_char;
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
type Bend = unsafe extern "C" fn(Handle, Handle, Handle, *mut Handle) -> c_int;
type Attend = unsafe extern "C" fn(Handle, Handle, Handle, i64, *mut Handle) -> c_int;

/// What kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelShape {
    pub(crate) width: i64,
    pub(crate) head: i64,
    pub(crate) curve: Activation,
}

impl KernelShape {
    /// The curve's number in `csrc/fused.cu`.
    pub(crate) fn curve_number(self) -> c_int {
        match self.curve {
            Activation::Silu => 0,
            Activation::Mish => 1,
            Activation::Gelu => 2,
            Activation::SquaredRelu => 3,
            Activation::Relu => 4,
        }
    }
}

/// Kernels for networks of one shape.
pub(crate) struct Kernels {
    program: NonNull<std::ffi::c_void>,
    error: Error,
    add_norm: AddNorm,
    bend: Bend,
    attend: Attend,
}

/// What a norm does to a row.
#[derive(Clone, Copy)]
pub(crate) struct NormNumbers<'a> {
    pub(crate) scale: &'a Tensor,
    pub(crate) offset: Option<&'a Tensor>,
    pub(crate) epsilon: f64,
    /// Whether the mean is taken off first.
    pub(crate) centred: bool,
}

/// Rows after a branch has joined them, and what the next one reads.
pub(crate) struct Joined {
    pub(crate) sum: Tensor,
    pub(crate) normed: Tensor,
}

/// What the part for cards has said last; a compiler has more than a line to say.
fn told(error: Error) -> TorchError {
    // SAFETY: it is a string that nobody changes before the next call.
    let text = unsafe { CStr::from_ptr(error()) };
    TorchError(text.to_string_lossy().trim_end().to_owned())
}

fn source() -> Result<CString, TorchError> {
    CString::new(SOURCE).map_err(|error| TorchError(error.to_string()))
}

fn maybe(tensor: Option<&Tensor>) -> Handle {
    tensor.map_or(null_mut(), handle)
}

/// Compiles the kernels for a generation of cards, 90 for Hopper, of which there need be none here.
#[cfg(test)]
pub(crate) fn compile(generation: i32, shape: KernelShape) -> Result<(), TorchError> {
    // SAFETY: these are their types in `csrc/fused.cpp` and `csrc/card.cpp`.
    let (compile, error): (Compile, Error) =
        unsafe { (card_function(c"tandem_card_compile")?, card_function(c"tandem_card_error")?) };
    let (source, width, head) = (source()?, shape.width as c_int, shape.head as c_int);
    // SAFETY: the source is a string that lives longer than the call.
    match unsafe { compile(source.as_ptr(), generation, width, head, shape.curve_number()) } {
        0 => Ok(()),
        _ => Err(told(error)),
    }
}

impl Kernels {
    /// Compiles them for a card. The part for cards must be open.
    pub(crate) fn new(card: usize, shape: KernelShape) -> Result<Self, TorchError> {
        // SAFETY: these are their types in `csrc/fused.cpp` and `csrc/card.cpp`.
        let (make, error, add_norm, bend, attend) = unsafe {
            let make: NewProgram = card_function(c"tandem_card_program")?;
            let error: Error = card_function(c"tandem_card_error")?;
            let add_norm: AddNorm = card_function(c"tandem_card_add_norm")?;
            let bend: Bend = card_function(c"tandem_card_bend")?;
            let attend: Attend = card_function(c"tandem_card_attention")?;
            (make, error, add_norm, bend, attend)
        };
        let (source, width, head) = (source()?, shape.width as c_int, shape.head as c_int);
        // SAFETY: the source is a string that lives longer than the call.
        let program = unsafe { make(source.as_ptr(), card as c_int, width, head, shape.curve_number()) };
        let program = NonNull::new(program).ok_or_else(|| told(error))?;
        Ok(Self { program, error, add_norm, bend, attend })
    }

    /// `x + factor * branch`, and that normed. All are bf16 and on the card of the kernels, rows have their width, and a
    /// branch has the shape of x.
    pub(crate) fn add_norm(
        &self,
        x: &Tensor,
        branch: Option<&Tensor>,
        factor: f64,
        norm: NormNumbers<'_>,
    ) -> Result<Joined, TorchError> {
        let (mut normed, mut sum) = (null_mut(), null_mut());
        // SAFETY: all tensors live longer than the call, and the program as long as this process.
        let code = unsafe {
            (self.add_norm)(
                self.program.as_ptr(),
                handle(x),
                maybe(branch),
                handle(norm.scale),
                maybe(norm.offset),
                factor,
                norm.epsilon,
                norm.centred.into(),
                &raw mut normed,
                &raw mut sum,
            )
        };
        if code != 0 {
            return Err(told(self.error));
        }
        // SAFETY: both were made for us alone, the sum where there is a branch.
        unsafe {
            let sum = if branch.is_some() { Tensor::from_ptr(sum.cast()) } else { x.shallow_clone() };
            Ok(Joined { sum, normed: Tensor::from_ptr(normed.cast()) })
        }
    }

    /// The curve of `x + bias`, of rows whose length is a multiple of eight and that of the bias; both bf16 and on the card
    /// of the kernels.
    pub(crate) fn bend(&self, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TorchError> {
        let mut bent = null_mut();
        // SAFETY: both tensors live longer than the call, and the program as long as this process.
        let code = unsafe { (self.bend)(self.program.as_ptr(), handle(x), maybe(bias), &raw mut bent) };
        match code {
            // SAFETY: it was made for us alone.
            0 => Ok(unsafe { Tensor::from_ptr(bent.cast()) }),
            _ => Err(told(self.error)),
        }
    }

    /// What 64 squares see of each other: of queries, keys and values side by side, `[batch, 64, 3 * width]`, and a bias
    /// `[heads, 64, 64]` or `[batch, heads, 64, 64]`, all bf16 and on the card of the kernels.
    pub(crate) fn attend(
        &self,
        rows: &Tensor,
        bias: Option<&Tensor>,
        heads: i64,
    ) -> Result<Tensor, TorchError> {
        let mut seen = null_mut();
        // SAFETY: all tensors live longer than the call, and the program as long as this process.
        let code =
            unsafe { (self.attend)(self.program.as_ptr(), handle(rows), maybe(bias), heads, &raw mut seen) };
        match code {
            // SAFETY: it was made for us alone.
            0 => Ok(unsafe { Tensor::from_ptr(seen.cast()) }),
            _ => Err(told(self.error)),
        }
    }
}
