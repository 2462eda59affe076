//! Names of code in Windows modules, on any system.
//!
//! **Duties.** Find the symbol file (PDB) of each module of a trace: in
//! directories and stores of a [`SymbolPath`], beside the image, and, where the
//! user asked for it, on symbol servers; name relative virtual addresses with
//! it: functions, inlined callers, files and lines. Where there is no PDB but
//! the image (PE) is at hand, its export table. A PDB counts by its GUID and age,
//! an image by its size and time stamp: no name is better than a wrong one, and
//! the table's note says what was found instead.
//!
//! **Non-goals.** No traces, no processes: who asks has turned addresses into
//! modules and offsets. No server is asked that the user did not name.
//!
//! What a trace says of its modules is not believed: only the last part of a
//! file's name is used, and no share of another machine is opened because a trace
//! names it.
//!
//! ```
//! use syscollect_symbolize::windows::{ImageRequest, Options, PdbIdentity, SymbolPath, WindowsSymbolizer};
//!
//! let path = SymbolPath::parse("srv*/var/symbols*https://symbols.example.org");
//! let symbolizer = WindowsSymbolizer::new(Options { path: path.without_servers(), ..Options::default() });
//! let pdb = PdbIdentity { name: r"d:\build\app.pdb".into(), guid: [7; 16], age: 1 };
//! let request = ImageRequest { path: r"C:\app.exe".into(), pdb: Some(pdb), offsets: vec![0x1000], ..Default::default() };
//! let tables = symbolizer.name_modules(&[request]);
//! assert!(tables[0].note.contains("app.pdb"), "{}", tables[0].note);
//! ```

mod demangle;
mod find;
mod identity;
mod image;
mod path;
mod pdb;
mod request;
mod room;
mod scopes;
mod sections;
mod server;
mod source;
mod symbolizer;
mod types;

pub use identity::PdbIdentity;
pub use image::{Image, ImageError};
pub use path::{SymbolPath, SymbolSource, server_url};
pub use pdb::{Pdb, PdbError, PdbNames};
pub use request::ImageRequest;
pub use sections::SectionError;
pub use symbolizer::{Options, WindowsSymbolizer};
