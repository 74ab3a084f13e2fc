//! The program on a GPU: finding GPUs, compiling for one of them, and the functions of the program.

use super::source;
use crate::trainer::{Job, TrainError};
use cudarc::driver::sys::{CUdevice_attribute_enum as About, CUfunction_attribute_enum as Attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};
use std::sync::Arc;
use tandem_nnue::HeadShape;

/// Functions of the compiled program, by their names in `step.cu`.
pub(super) struct Program {
    pub(super) find_features: CudaFunction,
    /// Rounds the first layer; `None` unless training is quantisation-aware.
    pub(super) quantise_first: Option<CudaFunction>,
    pub(super) step: CudaFunction,
    pub(super) place_rows: CudaFunction,
    pub(super) list_users: CudaFunction,
    pub(super) sum_items: CudaFunction,
    pub(super) square_rows: CudaFunction,
    pub(super) square_rest: CudaFunction,
    pub(super) update_rows: CudaFunction,
    pub(super) update_rest: CudaFunction,
    pub(super) update_ema: CudaFunction,
}

/// Names of the GPUs that can be used, in the order of their indices.
///
/// # Errors
///
/// If there is no NVIDIA driver, no run-time compiler (NVRTC), or no GPU; the message says what to install.
pub fn gpus() -> Result<Vec<String>, TrainError> {
    // SAFETY: both only search for a library.
    let (driver, compiler) =
        unsafe { (cudarc::driver::sys::is_culib_present(), cudarc::nvrtc::sys::is_culib_present()) };
    if !driver {
        return Err(TrainError("no NVIDIA driver: libcuda cannot be found".into()));
    }
    if !compiler {
        let problem = "no NVRTC: libnvrtc cannot be found; it comes with the CUDA toolkit, or by `pip install nvidia-cuda-nvrtc` \
                       with its folder in LD_LIBRARY_PATH";
        return Err(TrainError(problem.into()));
    }
    let count = CudaContext::device_count()?;
    let names = (0..count as usize).map(|gpu| CudaContext::new(gpu)?.name());
    let names: Vec<String> = names.collect::<Result<_, DriverError>>()?;
    match names.is_empty() {
        true => Err(TrainError("the NVIDIA driver finds no GPU".into())),
        false => Ok(names),
    }
}

/// Compiles the program of a job for a generation of GPUs, named as the compiler does, for example `sm_90`.
pub(super) fn compile(job: &Job, generation: &str) -> Result<Ptx, TrainError> {
    if let Some(problem) = source::problem(job) {
        return Err(TrainError(problem));
    }
    let options = CompileOptions {
        options: vec![format!("--gpu-architecture={generation}"), "--std=c++17".into()],
        ..CompileOptions::default()
    };
    compile_ptx_with_opts(source::source(job), options).map_err(|error| {
        TrainError(format!(
            "the program for the GPU cannot be compiled; please report this with the recipe: {error}"
        ))
    })
}

impl Program {
    pub(super) fn new(
        context: &CudaContext,
        module: &Arc<CudaModule>,
        job: &Job,
    ) -> Result<Self, TrainError> {
        let get = |name: &str| module.load_function(name);
        let flat = matches!(job.layout.architecture().head, HeadShape::Flat { .. });
        let step = get(if flat { "flat_step" } else { "stack_step" })?;
        if !flat {
            let bytes = source::shared_bytes(job) as i32;
            let max = context.attribute(About::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
            let all = bytes + step.shared_size_bytes()?;
            if all > max {
                let advice = source::ADVICE;
                let problem = format!(
                    "the first dense layer takes {all} bytes of shared memory, and this GPU has {max}: {advice}"
                );
                return Err(TrainError(problem));
            }
            step.set_attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)?;
        }
        Ok(Self {
            find_features: get("find_features")?,
            quantise_first: job.layout.options().qat.then(|| get("quantise_first")).transpose()?,
            step,
            place_rows: get("place_rows")?,
            list_users: get("list_users")?,
            sum_items: get("sum_items")?,
            square_rows: get("square_rows")?,
            square_rest: get("square_rest")?,
            update_rows: get("update_rows")?,
            update_rest: get("update_rest")?,
            update_ema: get("update_ema")?,
        })
    }
}
