//! Writes the reference capture to a file.

fn main() -> std::io::Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => std::fs::write(path, syscollect_tests::reference_capture::capture()),
        None => Err(std::io::Error::other("name the file to write")),
    }
}
