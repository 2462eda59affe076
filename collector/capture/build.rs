//! Compresses the committed objects of kernel programs, which would be a twentieth of the program.

use std::ffi::OsString;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let (package, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    let objects = Path::new(&package).join("../../bpf");
    println!("cargo::rerun-if-changed={}", objects.display());
    for entry in fs::read_dir(&objects)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension() == Some("o".as_ref())) {
            println!("cargo::rerun-if-changed={}", path.display());
            let compressed = lz4_flex::block::compress_prepend_size(&fs::read(&path)?);
            fs::write(Path::new(&out).join(name), compressed)?;
        }
    }
    Ok(())
}

fn variable(name: &str) -> io::Result<OsString> {
    env::var_os(name).ok_or_else(|| io::Error::other("cargo sets it"))
}
