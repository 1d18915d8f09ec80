//! Compiles the `.proto` files in pure Rust, so that building needs no `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

// Cargo reads its instructions from the standard output of a build script.
#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "proto/orbit/store/v1/store.proto",
        "proto/orbit/history/v1/history.proto",
        "proto/orbit/peer/v1/peer.proto",
        "proto/orbit/engine/v1/engine.proto",
        "proto/orbit/worker/v1/worker.proto",
        "proto/orbit/api/v1/orbit.proto",
        "proto/orbit/node/v1/node.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let mut descriptors = protox::compile(files, ["proto"])?;
    // Maps in order, so that equal messages are equal bytes.
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(descriptors.clone())?;
    for file in &mut descriptors.file {
        // Comments and places in the text: only the generated code shows them.
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.binpb"), descriptors.encode_to_vec())?;
    Ok(())
}
