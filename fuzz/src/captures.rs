//! Captures made of arbitrary bytes, whose checksums fit, so that a search gets past them. The
//! offsets are those of `docs/capture-format.md`.

use syscollect_model::{Lane, LaneKind, ProgramTicks, Ticks};
use syscollect_records::{ClockRecord, RecordKind, Stamp, ZoneLogChunk};
use syscollect_store::{
    CaptureWriter, Chunk, ChunkHeader, ClientDefinition, Definition, KnownProcess, KnownSleep,
    KnownThread, ProbeArgument, ProbeDefinition, ProbeRole,
};
use syscollect_zone_protocol::GpuApi;
use syscollect_zone_protocol::log::{EntryWords, GpuContext, Location};

/// Bytes of a chunk's header.
pub const CHUNK_HEADER: usize = 72;
const CHUNK_MAGIC: [u8; 4] = [0xFD, b'C', b'k', 0xFE];
/// Kinds of lanes, and the filler.
const KINDS: u8 = LaneKind::ALL.len() as u8 + 1;
/// The first clock reading of what is played, ticks, and how far behind it the last is.
const FIRST: u64 = 3 << 56;
const SPAN: u64 = (1 << 55) - 1;
/// Instrumented programs of what is played.
const CLIENTS: u32 = 4;

/// The beginning of every file that is played: instrumented programs and their
/// processes, probes of every role, and two clock readings that are so far
/// apart that every other stamp lies between them.
pub fn preamble() -> Vec<u8> {
    let clients = (0..CLIENTS).map(|client| ClientDefinition {
        client,
        pid: client,
        clock: ProgramTicks::Tsc,
        since: Ticks(FIRST),
        user: Some(1000 + client / 2),
    });
    let processes = (0..CLIENTS).map(|pid| KnownProcess {
        pid,
        threads: (pid..pid + 2)
            .map(|tid| KnownThread {
                tid,
                name: format!("thread {tid}"),
                asleep: (tid != pid).then(|| KnownSleep {
                    state: 'S',
                    blocked_in: "futex_do_wait".into(),
                    user_stack: 1,
                    ..KnownSleep::default()
                }),
            })
            .collect(),
        states_read: Ticks(FIRST),
        ..KnownProcess::default()
    });
    let probes = (0..).zip(ProbeRole::ALL).map(|(probe, role)| ProbeDefinition {
        probe,
        role,
        pair: probe / 2,
        name: "probe".into(),
        arguments: vec![ProbeArgument { name: "x".into(), size: 4, ..ProbeArgument::default() }; 2],
        frames: "frames".into(),
        ..ProbeDefinition::default()
    });
    let readings: Vec<u8> =
        [0, SPAN].iter().flat_map(|ticks| reading(*ticks).as_bytes().to_vec()).collect();
    let header = ChunkHeader {
        lane: Lane::new(LaneKind::Clock, 0),
        sequence: 0,
        first: Ticks(FIRST),
        last: Ticks(FIRST + SPAN),
        current_tid: u32::MAX,
        stride: ClockRecord::SIZE as u32,
        records_before: 0,
        records: 2,
        length: readings.len() as u32,
    };
    let mut writer = CaptureWriter::create(Vec::new()).expect("memory takes every byte");
    for definition in [
        Definition::Clients(clients.collect()),
        Definition::Processes(processes.collect()),
        Definition::Probes(probes.collect()),
    ] {
        writer.define(&definition).expect("memory takes every byte");
    }
    writer.write(&Chunk { header, data: readings }).expect("memory takes every byte");
    for client in 0..CLIENTS {
        let data = log_of(client);
        let lane = Lane::new(LaneKind::ZoneLog, 0);
        let header = ChunkHeader {
            lane,
            sequence: client.into(),
            stride: 0,
            records: 3,
            records_before: u64::from(client) * 3,
            length: data.len() as u32,
            ..header
        };
        writer.write(&Chunk { header, data }).expect("memory takes every byte");
    }
    writer.finish().expect("memory takes every byte")
}

/// What a program refers to: as number 1 a queue of a GPU whose ticks wrap after 4 seconds, and
/// behind it another and a location.
fn log_of(client: u32) -> Vec<u8> {
    let mut queue = EntryWords::new();
    let context = GpuContext {
        api: GpuApi::Vulkan,
        tick_bits: 32,
        tick_femtoseconds: 1_000_000,
        owner: 0,
        serial: 1,
        name: b"queue",
    };
    queue.gpu_context(context);
    let mut other = EntryWords::new();
    other.gpu_context(GpuContext { tick_bits: 64, serial: 2, ..context });
    let mut location = EntryWords::new();
    let [name, function, file] = [&b"zone"[..], b"f", b"a.rs"];
    location.location(Location { line: 1, color: 0, name, function, file });
    let prefix = ZoneLogChunk { client, position: 0, reserved: 0 };
    let words = [queue, other, location].map(|entry| [&[entry.header()], entry.body()].concat());
    let words = words.concat();
    [prefix.as_bytes(), &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()]
        .concat()
}

fn reading(after: u64) -> ClockRecord {
    let stamp = Stamp::new(FIRST + after, RecordKind::Clock);
    ClockRecord {
        stamp,
        monotonic: after,
        monotonic_raw: after,
        boottime: after,
        realtime: after,
        uncertainty: 1,
    }
}

/// The header of a file without chunks.
pub fn file_header() -> Vec<u8> {
    let mut file = b"\x89SCAP\r\n\x1a\x01\0".to_vec();
    file.resize(28, 0);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file
}

/// Whether chunks of this kind begin with a program's number.
fn is_of_program(kind: u8) -> bool {
    kind == LaneKind::Zone as u8 || kind == LaneKind::ZoneLog as u8
}

/// The same bytes as chunks, one after the other, whose checksums fit, behind
/// `file`: the input only says what headers and payloads hold. Each payload is as
/// long as byte 60 of its header says, so that short inputs hold several.
pub fn sealed(mut file: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    while let Some((header, after)) = rest.split_first_chunk::<CHUNK_HEADER>() {
        let mut header = *header;
        let (payload, next) = after.split_at(usize::from(header[60]).min(after.len()));
        let mut payload = payload.to_vec();
        header[..4].copy_from_slice(&CHUNK_MAGIC);
        // Kinds of lanes and encodings are few; lengths are at most 4 MiB.
        let kind = header[8] % KINDS;
        (header[8], header[9], header[59], header[68]) = (kind, 0, 0, header[68] % 4);
        if let (true, Some(client)) = (is_of_program(kind), payload.first_chunk_mut()) {
            *client = (u32::from_le_bytes(*client) % CLIENTS).to_le_bytes();
        }
        header[58] &= 0x3F;
        header[60..64].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[64..68].copy_from_slice(&crc32fast::hash(&payload).to_le_bytes());
        let crc = crc32fast::hash(&header[8..]);
        header[4..8].copy_from_slice(&crc.to_le_bytes());
        file.extend(header);
        file.extend(payload);
        rest = next;
    }
    file
}
