//! Payloads of the graphics kernel's events, by id and version.

use super::*;
use crate::payload::reader::Reader;

/// Fences kept of one packet; more of them are left out.
pub(super) const MAX_FENCES: usize = 16;
/// Characters kept of an engine's name.
const MAX_NAME: usize = 64;

/// Whether [`decode()`] knows an event. Payloads of those that it does not decode are too short.
pub fn is_of_interest(id: u16) -> bool {
    matches!(id, 17 | 23..=32 | 116 | 166 | 168 | 175..=180 | 184 | 244 | 245 | 250 | 252 | 259 | 266 | 273 | 422..=424)
}

/// Decodes an event's payload. `None` for events that are not of interest, and
/// for payloads that are too short.
pub fn decode(id: u16, version: u16, payload: &[u8], is_64_bit: bool) -> Option<Dxgkrnl> {
    let mut from = Reader::new(payload, is_64_bit);
    match id {
        24..=32 | 250 | 422..=424 => object(id, &mut from),
        175..=177 => dma_packet(id, &mut from),
        178..=180 | 244 | 245 => queue_packet(id, version, &mut from),
        17 => vsync(&mut from),
        273 => multi_plane_vsync(&mut from),
        23 => Some(Dxgkrnl::SelectContext {
            adapter: from.pointer()?,
            context: from.pointer()?,
            node: from.u32()?,
        }),
        116 | 166 | 168 | 184 | 252 | 259 | 266 => present(id, version, &mut from),
        _ => None,
    }
}

/// Adapters, devices, contexts and engines: what becomes of them.
fn object(id: u16, from: &mut Reader<'_>) -> Option<Dxgkrnl> {
    let change = match id {
        24 | 27 | 30 | 422 => Change::Start,
        25 | 28 | 31 | 423 => Change::Stop,
        _ => Change::Rundown,
    };
    match id {
        24..=26 => {
            from.pointer()?;
            Some(Dxgkrnl::Adapter { change, adapter: from.pointer()? })
        }
        27..=29 => {
            let (process, adapter) = (from.pointer()?, from.pointer()?);
            from.u32()?;
            Some(Dxgkrnl::Device { change, device: from.pointer()?, adapter, process })
        }
        30..=32 => {
            let (device, node) = (from.pointer()?, from.u32()?);
            from.skip(7 * 4)?;
            Some(Dxgkrnl::Context { change, context: from.pointer()?, device, node })
        }
        250 => {
            let (adapter, node, engine) =
                (from.pointer()?, from.u32()?, Engine::from_number(from.u32()?));
            Some(Dxgkrnl::Node {
                adapter,
                node,
                engine,
                name: from.utf16().characters().take(MAX_NAME).collect(),
            })
        }
        _ => {
            let context = from.pointer()?;
            from.pointer()?;
            Some(Dxgkrnl::HardwareQueue { change, queue: from.pointer()?, context })
        }
    }
}

fn dma_packet(id: u16, from: &mut Reader<'_>) -> Option<Dxgkrnl> {
    let context = from.pointer()?;
    let queue_context = if id == 175 { from.pointer()? } else { 0 };
    let (kind, id_of_packet, sequence) =
        (DmaKind::from_number(from.u32()?), from.u64()?, from.u32()?);
    Some(match id {
        175 => Dxgkrnl::DmaStart { context, queue_context, kind, id: id_of_packet, sequence },
        176 => Dxgkrnl::DmaStop {
            context,
            kind,
            id: id_of_packet,
            sequence,
            preempted: from.u32()? != 0,
        },
        _ => {
            let end = DmaEnd::from_number(from.u32()?);
            Dxgkrnl::DmaDone { context, kind, id: id_of_packet, sequence, end }
        }
    })
}

fn queue_packet(id: u16, version: u16, from: &mut Reader<'_>) -> Option<Dxgkrnl> {
    let context = from.pointer()?;
    let kind = match id {
        244 => QueuePacketKind::Wait,
        245 => QueuePacketKind::Signal,
        _ => QueuePacketKind::from_number(from.u32()?),
    };
    let sequence = from.u32()?;
    let mut packet = QueuePacket { context, sequence, kind, present: false, fences: Vec::new() };
    match id {
        179 => return Some(Dxgkrnl::QueuePacketTaken { context, sequence }),
        180 => {
            let (preempted, timed_out) = (from.u32()? != 0, from.u32()? != 0);
            return Some(Dxgkrnl::QueuePacketStop {
                context,
                sequence,
                kind,
                preempted,
                timed_out,
            });
        }
        178 => packet.present = from.skip(8 + 4 + 4).and_then(|()| from.u32()) == Some(1),
        244 => packet.fences.extend(wait_fence(from)),
        _ if version > 0 => packet.fences = signal_fences(from).unwrap_or_default(),
        _ => {}
    }
    Some(Dxgkrnl::QueuePacketStart(packet))
}

fn wait_fence(from: &mut Reader<'_>) -> Option<Fence> {
    from.u32()?;
    let context = from.pointer()?;
    (context != 0).then_some(Fence { context, sequence: from.u64()? })
}

fn signal_fences(from: &mut Reader<'_>) -> Option<Vec<Fence>> {
    from.u32()?;
    let count = from.u32()? as usize;
    let mut objects = *from;
    from.skip(count.checked_mul(from.pointer_size())?)?;
    let kept = count.min(MAX_FENCES);
    (0..kept).map(|_| Some(Fence { context: objects.pointer()?, sequence: from.u64()? })).collect()
}

fn vsync(from: &mut Reader<'_>) -> Option<Dxgkrnl> {
    let adapter = from.pointer()?;
    from.u32()?;
    let address = Some(from.u64()?);
    let (source, frame) = (from.u32()?, from.u32()?);
    Some(Dxgkrnl::VSync(VSync { adapter, source, frame, address, multi_plane: false }))
}

fn multi_plane_vsync(from: &mut Reader<'_>) -> Option<Dxgkrnl> {
    let (adapter, planes) = (from.pointer()?, from.u32()? as usize);
    let address = { *from }.u64().filter(|_| planes > 0);
    from.skip(planes.checked_mul(8)?)?;
    let (source, frame) = (from.u32()?, from.u32()?);
    Some(Dxgkrnl::VSync(VSync { adapter, source, frame, address, multi_plane: true }))
}

fn present(id: u16, version: u16, from: &mut Reader<'_>) -> Option<Dxgkrnl> {
    match id {
        116 | 259 => {
            let (adapter, source) = (from.pointer()?, from.u32()?);
            let layer = if id == 259 { Some(from.u32()?) } else { None };
            let sequence = if id == 259 { from.u64()? } else { from.u32()?.into() };
            Some(Dxgkrnl::MmioFlip { adapter, source, layer, sequence })
        }
        166 => {
            let window = from.pointer()?;
            from.skip_pointers(3)?;
            from.skip(8 + 4)?;
            Some(Dxgkrnl::Blit { window, redirected: from.u32()? != 0 })
        }
        168 => {
            from.pointer()?;
            let source = from.u32()?;
            from.pointer()?;
            Some(Dxgkrnl::Flip { source, interval: Some(from.u32()?), kind: FlipKind::Whole })
        }
        184 => {
            from.u32()?;
            let (window, source) = (from.pointer()?, from.u32()?);
            if version > 0 {
                from.u32()?;
            }
            Some(Dxgkrnl::Present { window, source, flags: from.u32()?, status: from.u32()? })
        }
        252 => {
            let (source, _layer, enabled) = (from.u32()?, from.u32()?, from.u32()?);
            let kind = if enabled != 0 { FlipKind::Plane } else { FlipKind::PlaneOff };
            Some(Dxgkrnl::Flip { source, interval: None, kind })
        }
        _ => {
            from.pointer()?;
            from.u32()?;
            let source = from.u32()?;
            from.pointer()?;
            Some(Dxgkrnl::Flip { source, interval: Some(from.u32()?), kind: FlipKind::Independent })
        }
    }
}
