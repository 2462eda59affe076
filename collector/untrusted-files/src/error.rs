//! Why a file is not opened.

use std::io;

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A folder, a device, a FIFO, a socket.
    #[error("it is no regular file")]
    NoRegularFile,
    /// What lies there are interfaces of the kernel.
    #[error("it belongs to the kernel, not to a program")]
    OfTheKernel,
    /// The name is absolute, empty, or leads upwards.
    #[error("it is named in a way that leads out of its folder")]
    LeadsOut,
    /// A program serves its file system (FUSE). Who waits for such a program can end only when that
    /// answers.
    #[error("a program serves its file system, and may never answer")]
    Served,
    /// Its process sees more mounts than are read, and one of them may be such a file system.
    #[error("its process sees too many mounts to tell whether a program serves its file system")]
    TooManyMounts,
    /// Its file system does not answer.
    #[error("its file system did not answer in time")]
    Hangs,
    /// Files named by the same user, or by all, hang already.
    #[error("other files of its user did not answer in time")]
    OthersHang,
    /// The system refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match error {
            OpenError::System(error) => return error,
            OpenError::Served
            | OpenError::TooManyMounts
            | OpenError::Hangs
            | OpenError::OthersHang => io::ErrorKind::TimedOut,
            OpenError::NoRegularFile | OpenError::OfTheKernel | OpenError::LeadsOut => {
                io::ErrorKind::InvalidInput
            }
        };
        Self::new(kind, error)
    }
}
