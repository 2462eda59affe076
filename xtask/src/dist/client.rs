//! The client for C and C++ as it is installed: libraries, headers, and what CMake and pkg-config
//! find them by.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{cargo, output_of, root};

use super::program::without_paths;
use super::target;
use super::tree::{add_file, write};

/// Programs that are linked with them have this C library. Named, so that its flags are nobody
/// else's.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const LIBRARIES: [&str; 3] =
    ["libsyscollect_client.a", "libsyscollect_client.so", "libsyscollect_malloc.so"];
const HEADERS: [&str; 4] =
    ["syscollect.h", "syscollect.hpp", "syscollect_tracy_compat.h", "syscollect_tracy_colors.hpp"];
/// What names the libraries, by where it goes.
const NAMES: [(&str, &str); 4] = [
    ("lib/cmake/syscollect", "syscollect-config.cmake"),
    ("lib/cmake/syscollect", "syscollect-config-version.cmake"),
    ("lib/pkgconfig", "syscollect.pc"),
    ("lib/pkgconfig", "syscollect-static.pc"),
];

/// Libraries that were built.
pub(crate) struct ClientLibraries {
    folder: PathBuf,
}

impl ClientLibraries {
    /// Builds them for release.
    pub(crate) fn build() -> Result<Self> {
        output_of(
            cargo()
                .args(["build", "--quiet", "--release", "--target", TARGET])
                .args(["-p", "syscollect-client", "-p", "syscollect-malloc"])
                .env(
                    format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.to_uppercase().replace('-', "_")),
                    without_paths(),
                ),
        )?;
        Ok(Self { folder: target().join(TARGET).join("release") })
    }

    /// Puts all of it below `prefix`; returns how many bytes that is.
    pub(crate) fn install(&self, prefix: &Path) -> Result<u64> {
        let mut bytes = 0;
        for name in LIBRARIES {
            let file = prefix.join("lib").join(name);
            bytes += add_file(&self.folder.join(name), &file, 0o644)?;
            // What the standard library has of debug information is most of them.
            let mut strip = Command::new("strip");
            output_of(strip.args(["--strip-debug", "--enable-deterministic-archives"]).arg(&file))?;
        }
        let client = root().join("usdt-client");
        for name in HEADERS {
            let header = client.join("include").join(name);
            bytes += add_file(&header, &prefix.join("include").join(name), 0o644)?;
        }
        for (folder, name) in NAMES {
            let source = client.join("c/packaging").join(name);
            let text = fs::read_to_string(&source)
                .with_context(|| format!("cannot read {}", source.display()))?;
            let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
            bytes += text.len() as u64;
            write(&prefix.join(folder).join(name), &text)?;
        }
        Ok(bytes)
    }
}

/// What should be there below `prefix` and is not.
pub(super) fn missing(prefix: &Path) -> Option<PathBuf> {
    let libraries = LIBRARIES.iter().map(|name| prefix.join("lib").join(name));
    let headers = HEADERS.iter().map(|name| prefix.join("include").join(name));
    let names = NAMES.iter().map(|(folder, name)| prefix.join(folder).join(name));
    libraries.chain(headers).chain(names).find(|file| !file.is_file())
}
