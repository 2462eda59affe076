//! When programs show a frame: the beginning and end of the call, as the
//! run-time libraries tell it (providers Microsoft-Windows-DXGI and -D3D9).

use super::reader::Reader;
use crate::Guid;

/// Microsoft-Windows-DXGI.
pub const DXGI: Guid = Guid::from_u128(0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9);
/// Microsoft-Windows-D3D9.
pub const D3D9: Guid = Guid::from_u128(0x783aca0a_790e_4d7f_8451_aa850511c6b9);

/// A call that shows a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentCall {
    /// A thread called it.
    Start {
        /// Whose call.
        api: PresentApi,
        /// The swap chain's address in the program.
        swap_chain: u64,
        /// What was asked for; `DXGI_PRESENT_` or `D3DPRESENT_` flags.
        flags: u32,
        /// Syncs to wait for, where the library says it.
        interval: Option<u32>,
    },
    /// The call returned.
    Stop {
        /// Whose call.
        api: PresentApi,
        /// What it returned, an `HRESULT`.
        result: u32,
    },
}

/// Libraries that show frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PresentApi {
    /// Direct3D 10 and later.
    Dxgi,
    /// The same, for several planes.
    DxgiMultiPlane,
    /// Direct3D 9.
    D3d9,
}

impl PresentApi {
    /// What people read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dxgi => "DXGI Present",
            Self::DxgiMultiPlane => "DXGI PresentMultiplaneOverlay",
            Self::D3d9 => "D3D9 Present",
        }
    }
}

/// Decodes an event's payload. `None` for other providers, for events that are
/// not of interest, and for payloads that are too short.
pub fn decode(provider: &Guid, id: u16, payload: &[u8], is_64_bit: bool) -> Option<PresentCall> {
    let (api, starts) = match (*provider, id) {
        (DXGI, 42 | 43) => (PresentApi::Dxgi, id == 42),
        (DXGI, 55 | 56) => (PresentApi::DxgiMultiPlane, id == 55),
        (D3D9, 1 | 2) => (PresentApi::D3d9, id == 1),
        _ => return None,
    };
    let mut from = Reader::new(payload, is_64_bit);
    if !starts {
        return Some(PresentCall::Stop { api, result: from.u32()? });
    }
    let (swap_chain, flags) = (from.pointer()?, from.u32()?);
    let interval = if api == PresentApi::D3d9 { None } else { from.u32() };
    Some(PresentCall::Start { api, swap_chain, flags, interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_call_begins_and_returns() {
        let mut start = 0x1234_u64.to_le_bytes().to_vec();
        start.extend_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0]);
        let (api, swap_chain) = (PresentApi::Dxgi, 0x1234);
        let expected = PresentCall::Start { api, swap_chain, flags: 2, interval: Some(1) };
        assert_eq!(decode(&DXGI, 42, &start, true), Some(expected));
        let expected =
            PresentCall::Start { api: PresentApi::D3d9, swap_chain, flags: 2, interval: None };
        assert_eq!(decode(&D3D9, 1, &start, true), Some(expected));
        assert_eq!(decode(&DXGI, 43, &[0; 4], true), Some(PresentCall::Stop { api, result: 0 }));
        assert_eq!(decode(&D3D9, 42, &start, true), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_call_or_none(
            id in 0_u16..100,
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            is_64_bit: bool,
        ) {
            let is_call = matches!(id, 42 | 43 | 55 | 56);
            prop_assert!(is_call || decode(&DXGI, id, &payload, is_64_bit).is_none());
        }
    }
}
