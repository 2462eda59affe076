//! What the kernel says of its types (BTF), read once for all objects that are loaded together: it
//! takes tens of megabytes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use aya::{Btf, BtfError};

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
