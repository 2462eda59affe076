//! Slices as zones: a timeline of nested zones per thread.

use super::code::Code;
use super::locations::{LocationKey, LocationRow, Locations, bgr};
use super::strings::FileStrings;
use super::wire::Payload;
use crate::labels;
use std::io::{self, Write};
use syscollect_model::{Fields, Nesting, Slice, SliceUpdate, StackId, Tables, amend_fields};

/// The viewer reads zones by recursion and counts in 8 bits how deep one nests in itself.
const MAX_DEPTH: usize = 255;
/// The last line of a zone that its program did not end.
pub(crate) const UNFINISHED: &str = "[unfinished]";

/// A zone; those inside follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    start: i64,
    /// -1 while it is open.
    end: i64,
    /// What else is said of it: a row of [`ZoneTables`]'s extras, from 1; 0 is nothing.
    extra: u32,
    children: u32,
    location: i16,
}

impl Zone {
    /// The end; an open zone ends after all others.
    fn until(&self) -> i64 {
        if self.end < 0 { i64::MAX } else { self.end }
    }

    /// The earlier zone comes first, and of two that begin together the longer one.
    fn order(&self) -> (i64, i64) {
        (self.start, -self.until())
    }
}

/// What is said of a zone that has not ended.
#[derive(Debug)]
struct OpenZone {
    zone: u32,
    name: Option<u32>,
    color: u32,
    stack: Option<StackId>,
    fields: Fields,
    unfinished: bool,
}

/// What a zone says beyond its location.
#[derive(Debug)]
struct ZoneExtra {
    name: Option<u32>,
    text: Option<u32>,
    color: u32,
    stack: Option<StackId>,
}

/// What all zones share.
#[derive(Default)]
pub(crate) struct ZoneTables {
    pub(crate) locations: Locations,
    extras: Vec<ZoneExtra>,
}

/// The zones of one track, each followed by those inside.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    list: Vec<Zone>,
    open: Nesting<OpenZone, MAX_DEPTH>,
}

impl Zones {
    /// Begins a zone; `false` where it is too deep.
    pub(crate) fn begin(
        &mut self,
        (time, slice): (i64, &Slice),
        shared: &mut ZoneTables,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> bool {
        if !self.open.begin() {
            return false;
        }
        if let Some(parent) = self.open.innermost() {
            self.list[parent.zone as usize].children += 1;
        }
        let location = shared.locations.zone(
            LocationKey::of_zone(slice.name, slice.location, slice.color),
            strings,
            tables,
        );
        let own_name = location.shared || slice.number.is_some();
        self.open.push(OpenZone {
            zone: self.list.len() as u32,
            name: own_name
                .then(|| strings.intern(&labels::numbered(slice.name, slice.number, tables))),
            // A location that is shared may have another colour.
            color: slice.color.filter(|_| location.shared).map_or(0, bgr),
            stack: slice.stack,
            fields: slice.fields.clone(),
            unfinished: false,
        });
        self.list.push(Zone {
            start: time,
            end: -1,
            extra: 0,
            children: 0,
            location: LocationRow::index(location),
        });
        true
    }

    /// More is known of the innermost zone.
    pub(crate) fn update(
        &mut self,
        update: &SliceUpdate,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        let Some(open) = self.open.innermost() else { return };
        if let Some((name, number)) = update.name {
            open.name = Some(strings.intern(&labels::numbered(name, number, tables)));
        }
        if let Some(color) = update.color {
            open.color = bgr(color);
        }
        amend_fields(&mut open.fields, &update.fields, usize::MAX);
        open.unfinished |= update.unfinished;
    }

    /// Ends the innermost zone, if one is open.
    pub(crate) fn end(
        &mut self,
        time: i64,
        shared: &mut ZoneTables,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        if let Some(open) = self.open.end() {
            self.list[open.zone as usize].end = time;
            self.add_extra(open, shared, strings, tables);
        }
    }

    /// No more comes: zones that are open stay so.
    pub(crate) fn finish(
        &mut self,
        shared: &mut ZoneTables,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        for open in std::mem::take(&mut self.open).into_open() {
            self.add_extra(open, shared, strings, tables);
        }
    }

    fn add_extra(
        &mut self,
        open: OpenZone,
        shared: &mut ZoneTables,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        let OpenZone { zone, name, color, stack, fields, unfinished } = open;
        if (name, color, stack, unfinished) == (None, 0, None, false) && fields.is_empty() {
            return;
        }
        let mut text = labels::lines(&fields, tables);
        if unfinished {
            text += if text.is_empty() { UNFINISHED } else { "\n[unfinished]" };
        }
        let text = (!text.is_empty()).then(|| strings.intern_lines(&text));
        shared.extras.push(ZoneExtra { name, text, color, stack });
        self.list[zone as usize].extra = shared.extras.len() as u32;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// They are left out, and no location has them.
    pub(crate) fn uncount(&self, locations: &mut Locations) {
        self.list.iter().for_each(|zone| locations.uncount(zone.location));
    }

    pub(crate) fn parents(&self) -> usize {
        self.list.iter().filter(|zone| zone.children > 0).count()
    }

    /// Takes in the zones of another track, if each lies wholly inside or outside of every other;
    /// else gives them back.
    pub(crate) fn nest(&mut self, other: Self) -> Result<(), Self> {
        if self.is_empty() {
            *self = other;
            return Ok(());
        }
        match nested(&self.list, &other.list) {
            Some(list) => {
                self.list = list;
                Ok(())
            }
            None => Err(other),
        }
    }

    /// Writes the timeline. One time of reference goes through the whole tree.
    pub(crate) fn write<W: Write>(&self, out: &mut Payload<W>) -> io::Result<()> {
        let inside: u32 = self.list.iter().map(|zone| zone.children).sum();
        out.u32(self.list.len() as u32 - inside)?;
        let mut reference = 0;
        let mut open: Vec<(u32, i64)> = Vec::new();
        for zone in &self.list {
            out.i16(zone.location)?;
            out.i64(zone.start - reference)?;
            reference = zone.start;
            out.u32(zone.extra)?;
            out.u32(zone.children)?;
            open.push((zone.children, zone.end));
            while let Some((0, end)) = open.last().copied() {
                out.i64(end - reference)?;
                reference = end;
                open.pop();
                if let Some((children, _)) = open.last_mut() {
                    *children -= 1;
                }
            }
        }
        Ok(())
    }
}

/// Two timelines as one; `None` where zones would overlap or be too deep.
fn nested(one: &[Zone], other: &[Zone]) -> Option<Vec<Zone>> {
    let mut list: Vec<Zone> = Vec::with_capacity(one.len() + other.len());
    let mut open: Vec<usize> = Vec::new();
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let zone = match (one.peek(), other.peek()) {
            (Some(a), Some(b)) if b.order() < a.order() => other.next()?,
            (Some(_), _) => one.next()?,
            (None, Some(_)) => other.next()?,
            (None, None) => return Some(list),
        };
        // A zone without length at the end of another one may be inside it.
        while let Some(last) = open.last().map(|last| list[*last].until())
            && (last < zone.start || last == zone.start && zone.until() > zone.start)
        {
            open.pop();
        }
        if let Some(parent) = open.last().map(|last| &mut list[*last]) {
            if zone.until() > parent.until() || open.len() >= MAX_DEPTH {
                return None;
            }
            parent.children += 1;
        }
        open.push(list.len());
        list.push(Zone { children: 0, ..*zone });
    }
}

impl ZoneTables {
    /// The call stacks that zones have, by row; 0 is none.
    pub(crate) fn callstacks(
        &self,
        code: &mut Code,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> Vec<u32> {
        let stacks = self.extras.iter().map(|extra| extra.stack);
        stacks.map(|stack| code.callstack_or_none(stack, strings, tables)).collect()
    }

    /// Writes the zone extras; the first is nobody's.
    pub(crate) fn write_extras<W: Write>(
        &self,
        out: &mut Payload<W>,
        callstacks: &[u32],
    ) -> io::Result<()> {
        out.count(1 + self.extras.len())?;
        out.bytes(&[0; 12])?;
        for (extra, callstack) in self.extras.iter().zip(callstacks) {
            out.int24(*callstack)?;
            out.optional_string_index(extra.text)?;
            out.optional_string_index(extra.name)?;
            out.int24(extra.color)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone(start: i64, end: i64, children: u32) -> Zone {
        Zone { start, end, extra: 0, children, location: -1 }
    }

    fn shape(list: &[Zone]) -> Vec<(i64, i64, u32)> {
        list.iter().map(|zone| (zone.start, zone.end, zone.children)).collect()
    }

    #[test]
    fn timelines_that_fit_into_each_other_become_one() {
        let one = [zone(1, 9, 1), zone(2, 5, 0), zone(20, -1, 0)];
        let other = [zone(2, 4, 0), zone(6, 9, 1), zone(7, 7, 0), zone(15, 20, 0), zone(21, 22, 0)];
        let list = nested(&one, &other).unwrap();
        let expected = [
            (1, 9, 2),
            (2, 5, 1),
            (2, 4, 0),
            (6, 9, 1),
            (7, 7, 0),
            (15, 20, 0),
            (20, -1, 1),
            (21, 22, 0),
        ];
        assert_eq!(shape(&list), expected);
    }

    #[test]
    fn timelines_that_overlap_do_not() {
        assert!(nested(&[zone(1, 5, 0)], &[zone(3, 7, 0)]).is_none());
        assert!(nested(&[zone(1, 5, 0)], &[zone(3, -1, 0)]).is_none());
        let deep: Vec<Zone> =
            (0..255).map(|at| zone(at, 1_000 - at, u32::from(at < 254))).collect();
        assert!(nested(&deep, &[zone(300, 301, 0)]).is_none());
        assert!(nested(&deep, &[zone(2_000, 2_001, 0)]).is_some());
    }

    /// A timeline of brackets: the times between them, and whether each opens or closes.
    fn timeline(steps: &[(i64, bool)]) -> Vec<Zone> {
        let (mut list, mut open, mut time): (Vec<Zone>, Vec<usize>, i64) =
            (Vec::new(), Vec::new(), 0);
        for (wait, opens) in steps {
            time += wait;
            if *opens {
                if let Some(parent) = open.last() {
                    list[*parent].children += 1;
                }
                open.push(list.len());
                list.push(zone(time, -1, 0));
            } else if let Some(last) = open.pop() {
                list[last].end = time;
            }
        }
        list
    }

    proptest! {
        #[test]
        fn one_timeline_has_all_zones_of_two_and_every_zone_lies_in_its_parent(
            one in prop::collection::vec((0i64..4, any::<bool>()), 0..30),
            other in prop::collection::vec((0i64..40, any::<bool>()), 0..6),
        ) {
            let (one, other) = (timeline(&one), timeline(&other));
            let Some(list) = nested(&one, &other) else { return Ok(()) };
            prop_assert_eq!(list.len(), one.len() + other.len());
            let mut open: Vec<(i64, u32)> = Vec::new();
            let mut before = 0;
            for zone in &list {
                while open.last().is_some_and(|(_, left)| *left == 0) {
                    open.pop();
                }
                if let Some((end, left)) = open.last_mut() {
                    prop_assert!(zone.until() <= *end);
                    *left -= 1;
                }
                prop_assert!(zone.start >= before);
                before = zone.start;
                open.push((zone.until(), zone.children));
            }
        }

        #[test]
        fn a_timeline_and_nothing_are_that_timeline(steps in prop::collection::vec((1i64..4, any::<bool>()), 0..30)) {
            let list = timeline(&steps);
            prop_assert_eq!(shape(&nested(&list, &[]).unwrap()), shape(&list));
        }
    }
}
