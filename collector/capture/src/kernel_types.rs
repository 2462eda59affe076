//! What the kernel says of its types (BTF), read once for all objects that are loaded together: it
//! takes tens of megabytes.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use aya::{Btf, BtfError};

use crate::priority::PriorityBoost;

/// The kernel's types, as long as somebody has them.
///
/// # Errors
///
/// This kernel has none, or they cannot be read.
pub(crate) fn kernel_types() -> Result<Arc<Btf>, BtfError> {
    static KNOWN: Mutex<Weak<Btf>> = Mutex::new(Weak::new());
    // Who comes meanwhile waits, and has the same.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(types) = known.upgrade() {
        return Ok(types);
    }
    let types = Arc::new(Btf::from_sys_fs()?);
    *known = Arc::downgrade(&types);
    Ok(types)
}

/// The kernel's types while a thread reads them, as long as this lives: who asks for them meanwhile
/// waits for it.
pub(crate) struct ReadingTypes(Option<JoinHandle<Option<Arc<Btf>>>>);

impl ReadingTypes {
    /// Begins to read them. Where there are none, or no thread can be had, who asks is told.
    pub(crate) fn begin() -> Self {
        let thread = std::thread::Builder::new().name("kernel-types".to_owned());
        let reading = thread.spawn(|| {
            let _boost = PriorityBoost::begin();
            kernel_types().ok()
        });
        Self(reading.ok())
    }

    /// Waits for them; they are known as long as what is returned is held.
    pub(crate) fn read(mut self) -> Option<Arc<Btf>> {
        self.0.take()?.join().ok()?
    }
}
