//! `orbit proto --out DIR`: the `.proto` files of the gRPC services, as this binary speaks them.

use std::path::{Path, PathBuf};

use super::Error;
use super::print::Output;

/// Write the .proto files of the gRPC services, from which clients and workers are generated.
#[derive(Debug, clap::Args)]
pub(crate) struct Proto {
    /// The directory to write them to; it is made if it is not there, and files of before are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Proto {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let mut errors = Vec::new();
        for (name, text) in orbit_proto::PUBLIC {
            let path = self.out.join(name);
            match write(&path, text) {
                Ok(()) => output.line(path.display()),
                Err(error) => {
                    errors.push(Error::Output { file: path.display().to_string(), error: error.to_string() });
                }
            }
        }
        errors
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, text)
}
