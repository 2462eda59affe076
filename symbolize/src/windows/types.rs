//! How long the texts of a PDB's types are, before anybody writes them.
//!
//! A type's text holds those of the types that it refers to. In a damaged file they
//! may refer to each other in circles, or twice to one that refers twice to
//! another, and so on, which takes a reader all memory and stack there is. In an
//! intact file a type refers to earlier ones only, so one pass tells the length of every text.

/// Longer texts are nobody's names. A type's text is about as long as its record, or shorter.
const LENGTH_MAX: u32 = 1 << 20;
/// Types within types.
const DEPTH_MAX: u32 = 200;
/// Types below this number are built in, and so are their names.
const FIRST_INDEX: u32 = 0x1000;
const BUILT_IN: Cost = Cost { length: 32, depth: 1 };
/// Marks a reference to be resolved in another file's numbers.
const CROSS_MODULE: u32 = 1 << 31;
const HEADER_MIN: u32 = 56;

/// Length and depth of a text; at most as the maxima say, or [`Cost::ENDLESS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    length: u32,
    depth: u32,
}

impl Cost {
    const ENDLESS: Self = Self { length: u32::MAX, depth: u32::MAX };

    fn with(self, part: Self) -> Self {
        let sum = Self {
            length: self.length.saturating_add(part.length),
            depth: self.depth.max(part.depth.saturating_add(1)),
        };
        if sum.length > LENGTH_MAX || sum.depth > DEPTH_MAX { Self::ENDLESS } else { sum }
    }
}

/// The stream of types, or that of ids, is not one: the file is not to be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The lengths of all texts of a PDB's types and ids.
#[derive(Debug, Default)]
pub(crate) struct TextLengths {
    types: Vec<Cost>,
    first_type: u32,
    ids: Vec<Cost>,
    first_id: u32,
    all_end: bool,
}

impl TextLengths {
    /// Reads the streams of types (TPI) and of ids (IPI), which may be empty.
    ///
    /// # Errors
    ///
    /// [`Damaged`], also for records that say they hold more than they are long: readers
    /// reserve memory for what those say.
    pub(crate) fn read(types: &[u8], ids: &[u8]) -> Result<Self, Damaged> {
        let mut lengths = Self { all_end: true, ..Self::default() };
        let mut references = Vec::new();
        let (first, records) = records(types)?;
        lengths.first_type = first;
        for record in records {
            let record = record?;
            record.references(&mut references)?;
            let index = lengths.types.len();
            let cost = lengths.cost(record, &references, |lengths, reference| {
                lengths.earlier_type(reference, index)
            });
            lengths.types.push(cost);
        }
        let (first, records) = self::records(ids)?;
        lengths.first_id = first;
        for record in records {
            let record = record?;
            record.references(&mut references)?;
            let index = lengths.ids.len();
            let cost = lengths.cost(record, &references, |lengths, reference| match reference {
                Reference::Type(_) => lengths.earlier_type(reference, usize::MAX),
                Reference::Id(0) => BUILT_IN,
                Reference::Id(id) => earlier(&lengths.ids, lengths.first_id, id, index),
            });
            lengths.ids.push(cost);
        }
        Ok(lengths)
    }

    /// Whether the text of this type ends.
    pub(crate) fn type_ends(&self, index: u32) -> bool {
        ends(&self.types, self.first_type, index, self.all_end)
    }

    /// Whether the text of this id ends.
    pub(crate) fn id_ends(&self, index: u32) -> bool {
        ends(&self.ids, self.first_id, index, self.all_end)
    }

    fn cost(
        &mut self,
        record: Record<'_>,
        references: &[Reference],
        of: impl Fn(&Self, Reference) -> Cost,
    ) -> Cost {
        let own = Cost { length: record.data.len() as u32 + BUILT_IN.length, depth: 1 };
        let cost = references.iter().fold(own, |cost, reference| cost.with(of(self, *reference)));
        self.all_end &= cost != Cost::ENDLESS;
        cost
    }

    fn earlier_type(&self, reference: Reference, index: usize) -> Cost {
        match reference {
            Reference::Type(number) => earlier(&self.types, self.first_type, number, index),
            // No type refers to an id.
            Reference::Id(_) => Cost::ENDLESS,
        }
    }
}

/// The cost of `number`, as seen from the item at `index`.
fn earlier(costs: &[Cost], first: u32, number: u32, index: usize) -> Cost {
    let Some(place) = number.checked_sub(first).map(|place| place as usize) else {
        return BUILT_IN;
    };
    match costs.get(place) {
        Some(cost) => *cost,
        // Later ones might lead back. What is nowhere has no text to speak of.
        None if index == usize::MAX && number & CROSS_MODULE == 0 => BUILT_IN,
        None => Cost::ENDLESS,
    }
}

fn ends(costs: &[Cost], first: u32, number: u32, all: bool) -> bool {
    match number.checked_sub(first).and_then(|place| costs.get(place as usize)) {
        Some(cost) => *cost != Cost::ENDLESS,
        // Another file's number for any of them.
        None => all,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    Type(u32),
    Id(u32),
}

#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    kind: u16,
    data: &'a [u8],
}

impl Record<'_> {
    /// What its text holds the texts of.
    fn references(self, references: &mut Vec<Reference>) -> Result<(), Damaged> {
        references.clear();
        match self.kind {
            // Modifier, bit field.
            0x1001 | 0x1205 => self.add_types(&[0], references),
            // Pointer; of the third and fourth modes, to a member of a class.
            0x1002 if matches!(self.number(4).unwrap_or(0) >> 5 & 7, 2 | 3) => {
                self.add_types(&[0, 8], references);
            }
            0x1002 => self.add_types(&[0], references),
            // Arrays.
            0x1003 | 0x1503 | 0x1516 => self.add_types(&[0, 4], references),
            // Enumerations.
            0x1007 | 0x1507 => self.add_types(&[4], references),
            // Procedure: what it returns, and its arguments.
            0x1008 => self.add_types(&[0, 8], references),
            // Member function: what it returns, its class, `this`, and its arguments.
            0x1009 => self.add_types(&[0, 4, 8, 16], references),
            // Lists, of arguments and of texts.
            0x1201 | 0x1604 => {
                let count = self.number(0).ok_or(Damaged)? as usize;
                let list = self.data.get(4..).unwrap_or_default();
                let list =
                    count.checked_mul(4).and_then(|bytes| list.get(..bytes)).ok_or(Damaged)?;
                references.extend(list.chunks_exact(4).map(|number| Reference::Type(read(number))));
            }
            // Function: its scope and its type.
            0x1601 => {
                references.extend(self.number(0).map(Reference::Id));
                references.extend(self.number(4).map(Reference::Type));
            }
            // Member function: its class and its type.
            0x1602 => self.add_types(&[0, 4], references),
            _ => {}
        }
        Ok(())
    }

    fn add_types(self, offsets: &[usize], references: &mut Vec<Reference>) {
        references.extend(offsets.iter().filter_map(|at| self.number(*at)).map(Reference::Type));
    }

    fn number(self, at: usize) -> Option<u32> {
        number_at(self.data, at)
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(read)
}

fn read(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// The number of the first record of a stream, and the records.
fn records(
    stream: &[u8],
) -> Result<(u32, impl Iterator<Item = Result<Record<'_>, Damaged>>), Damaged> {
    let (first, mut rest) = match stream {
        [] => (FIRST_INDEX, stream),
        _ => header(stream)?,
    };
    let records = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = (|| {
            let (length, after) = rest.split_first_chunk()?;
            let (record, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
            let (kind, data) = record.split_first_chunk()?;
            rest = after;
            Some(Record { kind: u16::from_le_bytes(*kind), data })
        })();
        // Nothing comes after what is damaged.
        rest = if record.is_some() { rest } else { &[] };
        Some(record.ok_or(Damaged))
    });
    Ok((first, records))
}

fn header(stream: &[u8]) -> Result<(u32, &[u8]), Damaged> {
    let header = number_at(stream, 4).ok_or(Damaged)?;
    let first = number_at(stream, 8).ok_or(Damaged)?;
    let last = number_at(stream, 12).ok_or(Damaged)?;
    let records = stream.get(header as usize..).ok_or(Damaged)?;
    // Readers make room for as many as the header says; the shortest record has four bytes.
    let count = last.checked_sub(first).ok_or(Damaged)? as usize;
    if header < HEADER_MIN || first < FIRST_INDEX || count > records.len() / 4 {
        return Err(Damaged);
    }
    Ok((first, records))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTER: u16 = 0x1002;
    const LIST: u16 = 0x1201;
    const PROCEDURE: u16 = 0x1008;
    const FUNCTION: u16 = 0x1601;

    fn record(kind: u16, fields: &[u32]) -> Vec<u8> {
        let length = 2 + 4 * fields.len() as u16;
        let head = [length.to_le_bytes(), kind.to_le_bytes()].concat();
        head.into_iter().chain(fields.iter().flat_map(|field| field.to_le_bytes())).collect()
    }

    fn stream(records: &[Vec<u8>]) -> Vec<u8> {
        let last = FIRST_INDEX + records.len() as u32;
        let header = [0, HEADER_MIN, FIRST_INDEX, last].map(u32::to_le_bytes).concat();
        header.into_iter().chain([0; 40]).chain(records.concat()).collect()
    }

    fn pointer(to: u32) -> Vec<u8> {
        record(POINTER, &[to, 0x1000c])
    }

    fn ends(records: &[Vec<u8>]) -> Vec<bool> {
        let lengths = TextLengths::read(&stream(records), &[]).unwrap();
        (0..records.len() as u32).map(|index| lengths.type_ends(FIRST_INDEX + index)).collect()
    }

    #[test]
    fn what_refers_to_earlier_types_ends() {
        assert_eq!(
            ends(&[
                pointer(0x74),
                record(LIST, &[2, 0x1000, 0x74]),
                record(PROCEDURE, &[3, 0, 0x1001])
            ]),
            [true; 3]
        );
        assert_eq!(ends(&[]), [true; 0]);
    }

    #[test]
    fn circles_do_not_end_nor_does_what_leads_into_one() {
        assert_eq!(ends(&[pointer(0x1000), pointer(0x74), pointer(0x1000)]), [false, true, false]);
        assert_eq!(ends(&[pointer(0x1001), pointer(0x1000)]), [false, false]);
        assert_eq!(ends(&[pointer(CROSS_MODULE | 1)]), [false]);
    }

    #[test]
    fn types_that_double_with_each_step_are_cut_off() {
        let doubling: Vec<_> =
            (0..40).map(|step| record(LIST, &[2, 0x0fff + step, 0x0fff + step])).collect();
        let ends = ends(&doubling);
        let count = ends.iter().filter(|ends| **ends).count();
        assert!((10..20).contains(&count), "{count}");
        assert!(ends[..count].iter().all(|ends| *ends));
    }

    #[test]
    fn nobody_writes_pointers_two_hundred_deep() {
        let chain: Vec<_> = (0..300).map(|step| pointer(0x0fff + step)).collect();
        assert_eq!(ends(&chain).iter().filter(|ends| **ends).count(), 199);
    }

    #[test]
    fn a_function_within_itself_does_not_end() {
        let types = stream(&[pointer(0x74)]);
        let ids = stream(&[
            record(FUNCTION, &[0, 0x1000]),
            record(FUNCTION, &[0x1000, 0x1000]),
            record(FUNCTION, &[0x1002, 0]),
        ]);
        let lengths = TextLengths::read(&types, &ids).unwrap();
        assert_eq!([0x1000, 0x1001, 0x1002].map(|id| lengths.id_ends(id)), [true, true, false]);
        assert!(!lengths.id_ends(CROSS_MODULE | 7), "it may mean any");
    }

    #[test]
    fn streams_that_promise_more_than_they_hold_are_damaged() {
        assert!(is_damaged(&stream(&[record(LIST, &[1 << 30, 0x74])])));
        let mut many = stream(&[pointer(0x74)]);
        many[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(is_damaged(&many));
        let whole = stream(&[pointer(0x74)]);
        (1..whole.len())
            .filter(|length| *length != HEADER_MIN as usize)
            .for_each(|length| assert!(is_damaged(&whole[..length])));
    }

    fn is_damaged(types: &[u8]) -> bool {
        TextLengths::read(types, &[]).err() == Some(Damaged)
    }
}
