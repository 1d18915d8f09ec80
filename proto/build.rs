//! Compiles the `.proto` files in pure Rust, so that building needs no `protoc`.

use std::error::Error;

// Cargo reads its instructions from the standard output of a build script.
#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "proto/orbit/store/v1/store.proto",
        "proto/orbit/peer/v1/peer.proto",
        "proto/orbit/engine/v1/engine.proto",
        "proto/orbit/worker/v1/worker.proto",
        "proto/orbit/api/v1/orbit.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
