//! Who may watch.
//!
//! What a viewer sees is what a capture has, which is its owner's alone. So of the users of this
//! machine only root and the one who runs the recorder may connect to an address of its own. Who
//! comes through `ssh -L` comes as the user who logged in.

use super::socket_owners::{SocketEnds, SocketOwners};
use crate::owner::Owner;
use anyhow::{Context, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Who may watch.
pub(super) enum Admission {
    /// Whoever reaches the address.
    Anybody,
    /// Root and this user.
    OneUser { user: u32, owners: SocketOwners },
}

impl Admission {
    /// Of viewers that connect there. Beyond this machine nobody tells who they are.
    pub(super) fn to(listener: &TcpListener, any_user: bool) -> Result<Self> {
        let address = listener.local_addr().context("cannot ask where it listens")?;
        if any_user || !address.ip().is_loopback() {
            return Ok(Self::Anybody);
        }
        let refused = "the kernel does not tell whose a connection is (its module tcp_diag does); \
                       --any-user lets every user of this machine watch";
        let owners = SocketOwners::open().context(refused)?;
        let nobody = SocketAddr::new(address.ip(), 0);
        owners.user_of(SocketEnds { own: address, other: nobody }).context(refused)?;
        Ok(Self::OneUser { user: Owner::user_asking().unwrap_or(0), owners })
    }

    /// Why who has connected may not watch, if it may not.
    pub(super) fn refusal(&self, stream: &TcpStream, from: SocketAddr) -> Option<String> {
        let Self::OneUser { user, owners } = self else { return None };
        let to = stream.local_addr().ok()?;
        match owners.user_of(SocketEnds { own: from, other: to }) {
            Ok(peer) if peer == 0 || peer == *user => None,
            Ok(peer) => Some(format!(
                "user {peer} may not watch: root and user {user} may, and with --any-user everybody"
            )),
            // It has gone already, or hides.
            Err(error) => Some(format!("the kernel does not tell whose it is ({error})")),
        }
    }
}
