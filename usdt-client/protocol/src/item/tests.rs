extern crate std;

use super::*;
use crate::HostClock;
use crate::ValueType;
use crate::pieces::{stack_words, text_words};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::Unsigned),
        any::<i64>().prop_map(Value::Signed),
        any::<f64>().prop_map(Value::Float),
        any::<u32>().prop_map(Value::String),
    ]
}

/// All values of an enumeration that has numbers from 0 on.
fn one_of<T: core::fmt::Debug + Clone + 'static>(
    from_number: fn(u8) -> Option<T>,
) -> impl Strategy<Value = T> {
    prop::sample::select((0..32).filter_map(from_number).collect::<Vec<T>>())
}

fn event() -> impl Strategy<Value = Event> {
    let (frames, locks) = (one_of(FramePhase::from_number), one_of(LockAction::from_number));
    let short = any::<(u32, u32)>();
    let long = any::<(u32, u64, u64)>();
    prop_oneof![
        short.prop_map(|(location, depth)| Event::ZoneBegin { location, depth }),
        (0..64_u8).prop_map(|depth| Event::ZoneEnd { depth }),
        short.prop_map(|(string, color)| Event::Message { string, color }),
        (any::<u32>(), value()).prop_map(|(plot, value)| Event::Plot { plot, value }),
        (any::<u32>(), frames).prop_map(|(set, phase)| Event::Frame { set, phase }),
        long.prop_map(|(location, zone, task)| Event::AsyncBegin { location, zone, task }),
        any::<u64>().prop_map(|zone| Event::AsyncEnd { zone }),
        (short, locks).prop_map(|((lock, location), action)| Event::Lock {
            lock,
            action,
            location
        }),
        long.prop_map(|(pool, address, bytes)| Event::Alloc { address, bytes, pool }),
        any::<(u32, u64)>().prop_map(|(pool, address)| Event::Free { address, pool }),
        (any::<u32>(), markers()).prop_map(|(schema, phase)| Event::Marker { schema, phase }),
        (short, any::<u64>(), markers()).prop_map(|((schema, tid), at, phase)| Event::MarkerAt {
            schema,
            phase,
            at,
            tid
        }),
        any::<u64>().prop_map(|events| Event::Lost { events }),
        (short, any::<u64>()).prop_map(|((location, depth), began)| Event::OpenZone {
            location,
            depth,
            began
        }),
        any::<(u32, u32, u64, u64)>().prop_map(|(signal, code, address, instruction)| {
            Event::Crash { signal, code, address, instruction }
        }),
        any::<u32>().prop_map(|depth| Event::Attached { depth }),
        Just(Event::ThreadEnd),
        long.prop_map(|(location, zone, began)| Event::AsyncOpen { location, zone, began }),
        gpu_event().prop_map(Event::Gpu),
        frame_image().prop_map(Event::FrameImage),
        one_of(LoopPhase::from_number).prop_map(|phase| Event::Loop { phase }),
    ]
}

fn frame_image() -> impl Strategy<Value = FrameImage> {
    (any::<(u16, u8, bool)>(), any::<(u64, u16, u16)>()).prop_map(
        |((image, frames_ago, is_flipped), (taken, width, height))| FrameImage {
            image,
            frames_ago,
            is_flipped,
            taken,
            width,
            height,
        },
    )
}

fn gpu_event() -> impl Strategy<Value = GpuEvent> {
    let zone =
        || any::<(u32, u32)>().prop_map(|(context, number)| GpuZoneNumber { context, number });
    let clocks = one_of(HostClock::from_number);
    prop_oneof![
        (zone(), any::<u32>()).prop_map(|(zone, location)| GpuEvent::ZoneBegin { zone, location }),
        zone().prop_map(|zone| GpuEvent::ZoneEnd { zone }),
        (zone(), any::<[u64; 2]>()).prop_map(|(zone, [began, ended])| GpuEvent::Times {
            zone,
            began,
            ended
        }),
        zone().prop_map(|zone| GpuEvent::NoTimes { zone }),
        (any::<u32>(), clocks, 0..=MAX_DEVIATION, any::<[u64; 2]>()).prop_map(
            |(context, clock, deviation, [host, gpu])| GpuEvent::Calibration {
                context,
                clock,
                deviation,
                host,
                gpu
            }
        ),
    ]
}

fn markers() -> impl Strategy<Value = MarkerPhase> {
    one_of(MarkerPhase::from_number)
}

fn attribute() -> impl Strategy<Value = Attribute> {
    let bytes = prop::collection::vec(any::<u8>(), 0..=TEXT_BYTES);
    let addresses = prop::collection::vec(any::<u64>(), 0..=STACK_ADDRESSES);
    prop_oneof![
        (role(), any::<u32>(), any::<u64>()).prop_map(|(role, string, number)| Attribute::Tag {
            role,
            string,
            number
        }),
        (role(), any::<u32>(), bytes, any::<bool>()).prop_map(|(role, field, bytes, more)| {
            Attribute::Text { role, field, piece: TextPiece::new(&bytes), more }
        }),
        (any::<u32>(), value()).prop_map(|(field, value)| Attribute::Value { field, value }),
        (0..=0xff_ffff_u32).prop_map(Attribute::Color),
        any::<(u32, u64)>().prop_map(|(string, task)| Attribute::TaskName { string, task }),
        (addresses, any::<bool>(), one_of(StackEnding::from_number)).prop_map(
            |(stack, more, ending)| Attribute::Stack {
                piece: StackPiece::new(&stack),
                more,
                ending
            }
        ),
        (any::<(u16, u32)>(), prop::collection::vec(any::<u64>(), 1..=ITEM_BLOCKS)).prop_map(
            |((image, first), blocks)| Attribute::ImageBlocks(ImageBlocks::new(
                image, first, &blocks
            ))
        ),
    ]
}

fn role() -> impl Strategy<Value = TextRole> {
    one_of(TextRole::from_number)
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        (0..1_u64 << 56, event()).prop_map(|(ticks, event)| Item::Stamped { ticks, event }),
        attribute().prop_map(Item::Attribute),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        item in item(),
        rest in prop::collection::vec(any::<u64>(), 0..4),
    ) {
        let words = item.encode();
        if let Item::Stamped { ticks, event: Event::Gpu(event) } = item {
            prop_assert_eq!(event.encode(ticks), words);
        }
        if let Item::Stamped { ticks, event: Event::ZoneBegin { location, depth } } = item {
            prop_assert_eq!(ItemWords::zone_begin(ticks, location, depth), words);
        }
        if let Item::Stamped { ticks, event: Event::ZoneEnd { depth } } = item {
            prop_assert_eq!(ItemWords::zone_end(ticks, depth), words);
        }
        prop_assert_eq!(item_words(words[0]), Some(words.len()));
        prop_assert_eq!(is_stamped(words[0]), matches!(item, Item::Stamped { .. }));
        // Bit for bit, because a number need not equal itself.
        let decoded = Item::decode(&[&words, &rest[..]].concat()).expect("an item");
        prop_assert_eq!(decoded.encode(), words);
        prop_assert_eq!(std::format!("{decoded:?}"), std::format!("{item:?}"));
        prop_assert!(Item::decode(&words[..words.len() - 1]).is_none(), "an item that is cut");
    }

    #[test]
    fn words_of_any_content_are_an_item_or_none(
        words in prop::collection::vec(any::<u64>(), 0..6),
        kind: u8,
    ) {
        let mut words = words;
        if let Some(first) = words.first_mut() {
            *first = *first & !0xff | u64::from(kind);
        }
        if let Some(item) = Item::decode(&words) {
            let length = item_words(words[0]).expect("a length");
            prop_assert_eq!(item.encode().len(), length);
        }
    }

    #[test]
    fn a_text_is_its_pieces(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let (mut joined, mut words, mut last) = (Vec::new(), 0, true);
        for attribute in Attribute::text_pieces(TextRole::Message, 3, &text) {
            let Attribute::Text { role: TextRole::Message, field: 3, piece, more } = attribute
            else {
                return Err(TestCaseError::fail("no text"));
            };
            joined.extend_from_slice(piece.bytes());
            words += Item::Attribute(attribute).encode().len();
            prop_assert!(last, "nothing follows the last piece");
            last = more;
        }
        prop_assert!(!last && words <= text_words(text.len()));
        prop_assert_eq!(joined, text);
    }

    #[test]
    fn a_stack_is_its_pieces(stack in prop::collection::vec(any::<u64>(), 0..20)) {
        let (mut joined, mut words) = (Vec::new(), 0);
        for attribute in Attribute::stacks(&stack, StackEnding::Start) {
            let Attribute::Stack { piece, more, ending } = attribute else {
                return Err(TestCaseError::fail("no stack"));
            };
            joined.extend_from_slice(piece.addresses());
            prop_assert_eq!(more, joined.len() < stack.len());
            let expected = if more { StackEnding::Unsaid } else { StackEnding::Start };
            prop_assert_eq!(ending, expected, "the last one says how it ended");
            words += Item::Attribute(attribute).encode().len();
        }
        prop_assert!(words <= stack_words(stack.len()));
        prop_assert_eq!(joined, stack);
    }
}

#[test]
fn a_number_that_means_nothing_makes_no_item() {
    let frame = Event::Frame { set: 1, phase: FramePhase::End };
    let mut words = Item::Stamped { ticks: 5, event: frame }.encode().words;
    words[1] = 1 | 9 << 32;
    assert_eq!((Item::decode(&words), item_words(words[0])), (None, Some(2)));
    assert_eq!(Item::decode(&[0x7f]), None, "no such kind");
    assert_eq!(item_words(ItemKind::Text as u64 | 25 << 16), None, "a text too long");
    assert_eq!(Value::decode(ValueType::String as u8, 1 << 32), None, "no string's number");
}

#[test]
fn an_ending_of_a_newer_client_is_some_other_cut() {
    let stack = Attribute::stacks(&[0x1000], StackEnding::TooDeep).next().expect("a piece");
    let mut words = Item::Attribute(stack).encode().words;
    words[0] |= 0x77 << 24;
    let Some(Item::Attribute(Attribute::Stack { ending, .. })) = Item::decode(&words) else {
        panic!("no stack");
    };
    assert_eq!(ending, StackEnding::Other);
}

#[test]
fn an_image_that_cannot_be_has_no_blocks() {
    let sized = |width, height| {
        let taken =
            FrameImage { image: 1, frames_ago: 0, is_flipped: false, taken: 5, width, height };
        taken.blocks()
    };
    assert_eq!(
        [sized(4, 4), sized(320, 180), sized(960, 544)],
        [Some(1), Some(3600), Some(32_640)]
    );
    let none = [sized(0, 4), sized(4, 0), sized(6, 4), sized(4, 5), sized(65_532, 65_532)];
    assert_eq!(none, [None; 5]);
    for blocks in [0, 4, 255] {
        assert_eq!(item_words(ItemKind::ImageBlocks as u64 | blocks << 8), None, "{blocks}");
    }
}
