//! Descriptors sent with the bytes that say what they are: to a process of the recorder's own, and to
//! a flight recorder by whoever asks it for something.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Most descriptors of one message.
const MOST: usize = 2;

/// Sends these descriptors, two at most, with the first of the bytes; how many bytes were sent.
///
/// # Errors
///
/// The other end is closed, or there is no room for the message.
pub fn send(socket: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        // The standard library asks for no signal either.
        SendFlags::NOSIGNAL,
    )?;
    Ok(sent)
}

/// Receives what [`send`] sent, and how many bytes came; 0 at the end. A descriptor is absent that
/// this process had no room for.
///
/// # Errors
///
/// Nothing can be received.
pub fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?.bytes;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received, descriptors.flatten().collect()))
}
