//! What is found of the interpreter in a file.
fn main() {
    let path = std::env::args().nth(1).expect("a file");
    let data = std::fs::read(&path).expect("it can be read");
    println!("{:#x?}", syscollect_cpython::interpreter(&*data, &path));
}
