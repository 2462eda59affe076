//! Events of providers whose manifest a merging tool put into the file, and those of the .NET
//! runtime.

use syscollect_etl::Guid;
use syscollect_etl::session::Session;
use syscollect_tests::etl::{FakeTrace, classic, event};
use syscollect_tests::golden;

const EVENT_METADATA: [u8; 16] = syscollect_etl::payload::EVENT_METADATA.0;
const DOT_NET: [u8; 16] = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4).0;
const GAME: [u8; 16] = [1; 16];
const LEFT_OVERS: [u8; 16] = [2; 16];
const U32: [u16; 2] = [8, 8];
const UTF16: [u16; 2] = [1, 1];

/// A kind of event, as its manifest describes it.
struct Kind<'a> {
    provider: ([u8; 16], &'a str),
    id: u16,
    /// Names of its task and its opcode.
    name: (&'a str, &'a str),
    fields: &'a [(&'a str, [u16; 2])],
}

impl Kind<'_> {
    /// `TRACE_EVENT_INFO`: fixed places, descriptions of fields, then names.
    fn metadata(&self) -> Vec<u8> {
        let mut bytes = vec![0; 112 + 24 * self.fields.len()];
        bytes[..16].copy_from_slice(&self.provider.0);
        bytes[32..34].copy_from_slice(&self.id.to_le_bytes());
        put(&mut bytes, 52, self.provider.1);
        put(&mut bytes, 68, self.name.0);
        put(&mut bytes, 72, self.name.1);
        let count = (self.fields.len() as u32).to_le_bytes();
        bytes[100..104].copy_from_slice(&count);
        bytes[104..108].copy_from_slice(&count);
        for (number, (name, types)) in self.fields.iter().enumerate() {
            let at = 112 + 24 * number;
            put(&mut bytes, at + 4, name);
            bytes[at + 8..at + 12].copy_from_slice(&types.map(u16::to_le_bytes).concat());
            bytes[at + 16] = 1;
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, text: &str) {
    let place = bytes.len() as u32;
    bytes[at..at + 4].copy_from_slice(&place.to_le_bytes());
    bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
}

struct Logger(FakeTrace);

impl Logger {
    fn event(&mut self, us: u64, provider: [u8; 16], kind: (u16, u8), payload: &[u8]) {
        self.0.record(0, &event(FakeTrace::START + us * 10, (100, 101), provider, kind, payload));
    }

    /// Merging tools write descriptions at the end.
    fn describe(&mut self, us: u64, kind: &Kind<'_>) {
        let time = FakeTrace::START + us * 10;
        self.0.record(0, &classic(time, (4, 8), EVENT_METADATA, (32, 0), &kind.metadata()));
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn a_manifest_behind_the_events_names_them_and_their_fields_and_what_was_there_before_is_not_drawn()
{
    let mut logger = Logger(FakeTrace::new(1));
    logger.event(10, GAME, (7, 1), &[5_u32.to_le_bytes().to_vec(), utf16("castle")].concat());
    // Cut short, and one that the manifest does not have.
    logger.event(20, GAME, (7, 1), &6_u32.to_le_bytes());
    logger.event(30, GAME, (8, 0), &[]);
    logger.event(
        35,
        GAME,
        (7, 1),
        &[7_u32.to_le_bytes().to_vec(), utf16(&"é".repeat(300))].concat(),
    );
    // What was there when the collection began, and a provider of nothing else.
    logger.event(40, GAME, (7, 3), &[]);
    logger.event(50, LEFT_OVERS, (1, 10), &[]);
    let fields: &[_] = &[("Level", U32), ("Name", UTF16)];
    logger.describe(
        60,
        &Kind { provider: (GAME, "Game"), id: 7, name: ("Level", "win:Start"), fields },
    );
    let name = ("Method", "DCEnd");
    logger.describe(61, &Kind { provider: (LEFT_OVERS, "GameRundown"), id: 1, name, fields: &[] });
    let mut session = Session::from_bytes(vec![logger.0.finish()]).unwrap();
    golden::check("etl_manifest", &mut session);
    let facts = &session.facts().events;
    for (provider, name, count) in [("Game", "Level/Start", 4), ("GameRundown", "Method/DCEnd", 1)]
    {
        let reported = facts.iter().find(|event| event.provider == provider).unwrap();
        assert_eq!((reported.name.as_deref(), reported.count), (Some(name), count));
    }
}

#[test]
fn a_stack_that_the_dot_net_runtime_writes_belongs_to_the_event_that_the_thread_wrote_before() {
    let mut logger = Logger(FakeTrace::new(1));
    // No event came before this one.
    logger.event(5, DOT_NET, (82, 0), &stack(&[0x1000], 1));
    logger.event(10, DOT_NET, (10, 11), &[]);
    logger.event(11, DOT_NET, (82, 0), &stack(&[0x7ff6_0000_1000, 0x7ff6_0000_2001], 2));
    // An event has one stack.
    logger.event(12, DOT_NET, (82, 0), &stack(&[0x2000], 1));
    // It claims more addresses than it has.
    logger.event(20, DOT_NET, (10, 11), &[]);
    logger.event(21, DOT_NET, (82, 0), &stack(&[0x3000], u32::MAX));
    // That of an event that is not drawn is not drawn either.
    logger.event(30, DOT_NET, (10, 11), &[]);
    logger.event(31, DOT_NET, (10, 4), &[]);
    logger.event(32, DOT_NET, (82, 0), &stack(&[0x4000], 1));
    let mut session = Session::from_bytes(vec![logger.0.finish()]).unwrap();
    golden::check("etl_clr_stack", &mut session);
    assert_eq!((session.facts().stacks.records, session.facts().stacks.matched), (5, 2));
    assert_eq!(session.tables().stack_count(), 1);
}

fn stack(addresses: &[u64], claimed: u32) -> Vec<u8> {
    let head = [9_u16.to_le_bytes().to_vec(), vec![0, 0], claimed.to_le_bytes().to_vec()].concat();
    [head, addresses.iter().flat_map(|address| address.to_le_bytes()).collect()].concat()
}
