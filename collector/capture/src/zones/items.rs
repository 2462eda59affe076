//! Walking over items: as much of a look as the way to the file needs.

use std::ops::Range;

use syscollect_records::Stamp;
use syscollect_zone_protocol::{ItemKind, is_stamped, item_words};

/// Words after which a piece ends at the next stamped item: some room below a
/// chunk of 64 KiB.
const PIECE_WORDS: usize = (60 << 10) / 8;

/// Some items in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// Whole items.
    pub(super) words: &'a [u64],
    /// How many.
    pub(super) items: u32,
    /// How many of them begin events, as programs count what they lose.
    pub(super) events: u32,
    /// The first stamp among them.
    pub(super) first: Option<Stamp>,
    /// The last.
    pub(super) last: Option<Stamp>,
    /// Whether the first item has a stamp. One without belongs to what went before.
    pub(super) starts_stamped: bool,
}

/// Words that are no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Hands all items that begin before `limit` to `sink`, in pieces. A new piece
/// begins only at a stamped item. Returns the words of these items; those
/// before the first malformed one are handed on, too.
pub(super) fn pieces(
    words: &[u64],
    limit: usize,
    mut sink: impl FnMut(Piece<'_>),
) -> Result<usize, Malformed> {
    let (mut start, mut at, mut items, mut events) = (0, 0, 0, 0);
    let (mut first, mut last) = (None, None);
    let mut emit = |range: Range<usize>,
                    items: u32,
                    events: u32,
                    first: Option<Stamp>,
                    last: Option<Stamp>| {
        let words = &words[range];
        if let Some(word) = words.first() {
            let starts_stamped = is_stamped(*word);
            sink(Piece { words, items, events, first, last, starts_stamped });
        }
    };
    while at < limit.min(words.len()) {
        let word = words[at];
        let Some(length) = item_words(word).filter(|length| at + length <= words.len()) else {
            emit(start..at, items, events, first, last);
            return Err(Malformed);
        };
        if is_stamped(word) {
            if at - start >= PIECE_WORDS {
                emit(start..at, items, events, first, last);
                (start, items, events, first) = (at, 0, 0, None);
            }
            events += u32::from(!is_restated(word));
            first = first.or(Some(Stamp(word)));
            last = Some(Stamp(word));
        }
        items += 1;
        at += length;
    }
    emit(start..at, items, events, first, last);
    Ok(at)
}

/// Whether a stamped item tells a collector what there is, which is no event.
fn is_restated(word: u64) -> bool {
    use ItemKind::{AsyncOpen, Attached, Lost, OpenZone};
    const KINDS: [u8; 4] = [AsyncOpen as u8, Attached as u8, Lost as u8, OpenZone as u8];
    KINDS.contains(&(word as u8))
}

/// Words up to the end of the first item that ends a thread and begins before `limit`, if there is
/// one among these whole items.
pub(super) fn words_of_a_thread(words: &[u64], limit: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words[..limit.min(words.len())].get(at) {
        let length = item_words(*word)?;
        at += length;
        if *word as u8 == ItemKind::ThreadEnd as u8 {
            return Some(at);
        }
    }
    None
}

/// Where threads end among whole items.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadEnds {
    /// Words of these items.
    pub(super) words: usize,
    /// How many of them end a thread.
    pub(super) ends: u32,
    /// Whether the last one does.
    pub(super) is_last: bool,
}

/// Where threads end among the whole items that begin before `limit`; `None` where there is no item
/// at the beginning.
pub(super) fn thread_ends(words: &[u64], limit: usize) -> Option<ThreadEnds> {
    let mut found = ThreadEnds::default();
    while let Some(word) = words[..limit.min(words.len())].get(found.words) {
        let Some(length) = item_words(*word).filter(|length| found.words + length <= words.len())
        else {
            break;
        };
        found.words += length;
        found.is_last = *word as u8 == ItemKind::ThreadEnd as u8;
        found.ends += u32::from(found.is_last);
    }
    (found.words > 0).then_some(found)
}

/// Words of the items at the beginning that are older than `start`, and the events among them: up
/// to the first stamp that is not, to `limit`, or to what is no item.
pub(super) fn stale_words(words: &[u64], limit: usize, start: u64) -> (usize, u64) {
    let (mut at, mut events) = (0, 0);
    while let Some(word) = words[..limit.min(words.len())].get(at) {
        let fresh = is_stamped(*word) && Stamp(*word).ticks_near(start) >= start;
        let Some(length) = item_words(*word).filter(|length| !fresh && at + length <= words.len())
        else {
            break;
        };
        events += u64::from(is_stamped(*word) && !is_restated(*word));
        at += length;
    }
    (at, events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_zone_protocol::{ItemKind, ZONE_END};

    fn begin(ticks: u64) -> [u64; 2] {
        [ticks << 8 | ItemKind::ZoneBegin as u64, 1]
    }

    /// Words, items and whether it starts with a stamp, of each piece.
    type PieceOutlines = Vec<(usize, u32, bool)>;

    fn walked(words: &[u64], limit: usize) -> (Result<usize, Malformed>, PieceOutlines) {
        let mut outlines = Vec::new();
        let result = pieces(words, limit, |piece| {
            outlines.push((piece.words.len(), piece.items, piece.starts_stamped));
        });
        (result, outlines)
    }

    #[test]
    fn pieces_begin_with_a_stamp_and_lose_nothing() {
        let color = 0xff00_0000_u64 << 8 | ItemKind::Color as u64;
        let words: Vec<u64> = (0..30_000)
            .flat_map(|n| [begin(n)[0], 1, color, color, n << 8 | u64::from(ZONE_END)])
            .collect();
        let (result, outlines) = walked(&words, usize::MAX);
        assert_eq!(result, Ok(words.len()));
        assert!(outlines.len() > 10 && outlines.iter().all(|(_, _, stamped)| *stamped));
        assert_eq!(outlines.iter().map(|(_, items, _)| *items).sum::<u32>(), 30_000 * 4);
        assert_eq!(outlines.iter().map(|(words, ..)| *words).sum::<usize>(), words.len());
        assert!(
            outlines.iter().all(|(words, ..)| words * 8 <= 64 << 10),
            "no piece is larger than a chunk"
        );
    }

    #[test]
    fn an_item_that_begins_before_the_limit_belongs_to_the_run_and_one_behind_it_does_not() {
        let words = [begin(1), begin(2), begin(3)].concat();
        assert_eq!(walked(&words, 3), (Ok(4), vec![(4, 2, true)]));
        assert_eq!(walked(&words, 4), (Ok(4), vec![(4, 2, true)]));
    }

    #[test]
    fn what_goes_before_a_malformed_item_is_kept() {
        assert_eq!(
            walked(&[&begin(1)[..], &[0x7f]].concat(), 9),
            (Err(Malformed), vec![(2, 1, true)])
        );
        assert_eq!(walked(&begin(1)[..1], 9), (Err(Malformed), vec![]), "an item that is cut");
        assert_eq!(
            walked(&[ItemKind::Text as u64 | 25 << 16], 9),
            (Err(Malformed), vec![]),
            "a text too long"
        );
    }

    #[test]
    fn items_from_before_the_recording_are_told_by_their_stamps() {
        let text = [ItemKind::Text as u64 | 8 << 16, 7];
        let words = [begin(10), text, begin(20), text, begin(15)].concat();
        assert_eq!(stale_words(&words, 99, 5).0, 0);
        assert_eq!(stale_words(&words, 99, 20).0, 4);
        assert_eq!(stale_words(&words, 99, 30).0, words.len());
        assert_eq!(stale_words(&words, 3, 30).0, 4, "an item that begins before the limit");
        assert_eq!(stale_words(&words[..1], 99, 30).0, 0, "an item that is cut");
        let late = [begin(u64::MAX >> 8), begin(3)].concat();
        assert_eq!(
            stale_words(&late, 99, (1 << 56) + 2).0,
            2,
            "stamps are 56 bits of longer ticks"
        );
    }
}
