//! Reads protobuf, with no knowledge of the writer: fields as the encoding page
//! of the Protocol Buffers documentation defines them, and a printer that knows
//! of Perfetto only which fields are messages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64(u64),
    Bytes(Vec<u8>),
}

/// A decoded message: the fields in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(pub(crate) Vec<(u32, Value)>);

impl Fields {
    pub(crate) fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Value::Varint(varint(&mut bytes)),
                1 => Value::Fixed64(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Value::Bytes(take(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push(((tag >> 3) as u32, value));
        }
        Self(fields)
    }

    /// Every occurrence of a message, string or packed field.
    pub(crate) fn all(&self, field: u32) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(&bytes[..]),
            _ => None,
        })
    }

    /// Every occurrence of a message.
    pub(crate) fn messages(&self, field: u32) -> Vec<Fields> {
        self.all(field).map(Fields::parse).collect()
    }

    /// A message, empty if it is not there.
    pub(crate) fn message(&self, field: u32) -> Fields {
        self.all(field).next().map(Fields::parse).unwrap_or_default()
    }

    /// Every occurrence of an integer.
    pub(crate) fn numbers(&self, field: u32) -> Vec<u64> {
        self.0
            .iter()
            .filter_map(|(number, value)| match value {
                Value::Varint(value) if *number == field => Some(*value),
                _ => None,
            })
            .collect()
    }

    /// An integer.
    pub(crate) fn number(&self, field: u32) -> Option<u64> {
        self.numbers(field).first().copied()
    }

    /// Packed integers.
    pub(crate) fn packed(&self, field: u32) -> Vec<u64> {
        self.all(field).flat_map(packed).collect()
    }

    /// A string.
    pub(crate) fn text(&self, field: u32) -> Option<String> {
        self.all(field).next().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn packed(mut bytes: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(varint(&mut bytes));
    }
    values
}

/// The packets of a trace, those in compressed blocks too, as encoded.
pub(crate) fn packets(trace: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for packet in Fields::parse(trace).all(1) {
        let fields = Fields::parse(packet);
        let mut blocks = fields.all(50).peekable();
        if blocks.peek().is_none() {
            packets.push(packet.to_vec());
        }
        for block in blocks {
            let mut plain = Vec::new();
            flate2::read::ZlibDecoder::new(block).read_to_end(&mut plain).unwrap();
            packets.extend(Fields::parse(&plain).all(1).map(<[u8]>::to_vec));
        }
    }
    packets
}

/// What a length-delimited field holds, where that is not a string: by its path in `TracePacket`.
fn shapes() -> BTreeMap<&'static str, char> {
    let messages = "1 1.2 1.2.4 1.2.11 1.2.18 1.2.20 1.2.114 1.2.235 1.2.236 1.2.237 1.2.238 \
                    1.2.240 1.2.491 1.4 2 2.1 2.2 6 6.1 11 11.4 12 12.1 12.2 12.3 12.4 12.5 12.6 \
                    12.7 12.16 12.17 12.18 12.19 12.26 12.29 35 35.1 45 45.1 59 59.12 59.12.1 60 \
                    60.3 60.4 60.8 66 67 67.1 126 126.1";
    let packed = "1.4.1 1.4.2 1.4.3 1.4.4 1.4.6 1.4.7 1.4.8 1.4.9 1.4.10 1.4.11 1.4.12";
    let messages = messages.split_whitespace().map(|path| (path, 'm'));
    messages.chain(packed.split_whitespace().map(|path| (path, 'p'))).collect()
}

/// A trace in words: one line per field, its number, the length of a message, its value.
pub(crate) fn print(trace: &[u8]) -> String {
    let shapes = shapes();
    let mut text = String::new();
    for packet in packets(trace) {
        writeln!(text, "packet[{}]", packet.len()).unwrap();
        print_fields(&mut text, &packet, "", 1, &shapes);
    }
    text
}

fn print_fields(
    text: &mut String,
    bytes: &[u8],
    path: &str,
    depth: usize,
    shapes: &BTreeMap<&str, char>,
) {
    for (number, value) in Fields::parse(bytes).0 {
        let path = if path.is_empty() { number.to_string() } else { format!("{path}.{number}") };
        write!(text, "{}{number}", "  ".repeat(depth)).unwrap();
        match value {
            Value::Varint(value) => writeln!(text, ": {value}"),
            Value::Fixed64(bits) => writeln!(text, ": {:?}", f64::from_bits(bits)),
            Value::Bytes(bytes) => match shapes.get(path.as_str()) {
                Some('m') => {
                    writeln!(text, "[{}]", bytes.len()).unwrap();
                    print_fields(text, &bytes, &path, depth + 1, shapes);
                    Ok(())
                }
                Some(_) => writeln!(text, "[{}]: {:?}", bytes.len(), packed(&bytes)),
                None => match std::str::from_utf8(&bytes) {
                    Ok(string) => writeln!(text, "[{}]: {string:?}", bytes.len()),
                    Err(_) => writeln!(text, "[{}]: {bytes:02x?}", bytes.len()),
                },
            },
        }
        .unwrap();
    }
}
