//! Compiles the C++ and CUDA sources of `csrc`: functions of libtorch that tch does not bind, and the GPU
//! library. Does nothing without the feature `torch`.

fn main() {
    println!("cargo:rerun-if-changed=csrc");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    #[cfg(feature = "torch")]
    torch::compile();
}

#[cfg(feature = "torch")]
mod torch {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    pub(crate) fn compile() {
        let Some(torch) = std::env::var_os("LIBTORCH").map(PathBuf::from) else {
            panic!(
                "the feature `torch` needs libtorch 2.11: scripts/libtorch.sh FOLDER fetches it and says what to set"
            );
        };
        let include = [torch.join("include"), torch.join("include/torch/csrc/api/include")];
        // Gloo's own headers are not in PyTorch's package; Debian calls them libgloo-dev.
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .warnings(false)
            .includes(&include)
            .define("USE_C10D_GLOO", None)
            .define("_GLIBCXX_USE_CXX11_ABI", "1")
            .file("csrc/shim.cpp")
            .compile("tandem_shim");
        // Our CUDA kernels compiled for the CPU; only tests run them.
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .opt_level(2)
            .warnings(false)
            .file("csrc/emulated.cpp")
            .compile("tandem_emulated");
        println!("cargo:rustc-link-search=native={}", torch.join("lib").display());
        for library in ["torch_cpu", "c10", "stdc++"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
        compile_gpu_library(&torch, &include);
    }

    /// Compiles the GPU library, which is embedded in the program and loaded at run time if there is a GPU.
    /// If the headers of CUDA or NCCL are missing, the program is built without it.
    fn compile_gpu_library(torch: &Path, include: &[PathBuf]) {
        let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
        let library = out.join("gpu.so");
        let packages = torch.parent().unwrap_or(torch).join("nvidia");
        let mut compiler = Command::new("g++");
        compiler.args(["-std=c++17", "-O2", "-shared", "-fPIC", "-w", "-s"]);
        compiler.args(["-DUSE_C10D_NCCL", "-D_GLIBCXX_USE_CXX11_ABI=1", "csrc/gpu.cpp", "csrc/fused.cpp"]);
        compiler.arg("-o").arg(&library);
        let cuda_includes =
            ["cu13/include", "cu13/include/cccl", "nccl/include"].map(|path| packages.join(path));
        compiler.args(include.iter().chain(&cuda_includes).map(|path| format!("-I{}", path.display())));
        compiler.arg(format!("-L{}", torch.join("lib").display()));
        compiler.args(["-ltorch_cuda", "-lc10_cuda", "-ltorch_cpu", "-lc10", "-Wl,--allow-shlib-undefined"]);
        let status = compiler.status();
        let compiled = status.as_ref().is_ok_and(std::process::ExitStatus::success);
        let required =
            [packages.join("cu13/include/cuda_runtime_api.h"), packages.join("nccl/include/nccl.h")];
        let libtorch_cuda = torch.join("lib/libtorch_cuda.so");
        // If all headers are there, the error is in our sources and must fail the build.
        assert!(
            status.is_err() || compiled || !required.iter().chain([&libtorch_cuda]).all(|path| path.exists()),
            "csrc/gpu.cpp and csrc/fused.cpp do not compile"
        );
        if !compiled {
            println!(
                "cargo:warning=the GPU library was not built: CUDA graphs, NCCL and our own kernels will be missing"
            );
            let _ = std::fs::write(&library, b"");
        }
    }
}
