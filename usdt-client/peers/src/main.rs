//! What a zone costs here and elsewhere.
fn main() {}
