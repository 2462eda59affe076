//! Answers to what a viewer asks, from the catalogue alone.

use crate::catalogue::{Catalogue, FrameRow};
use crate::version::{Kind, Query, Version};
use crate::viewer::{OTHER_LOCATIONS, Viewer};

/// Bytes of a query.
pub(crate) const QUERY: usize = 13;

/// A query as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) query: Query,
    pub(crate) pointer: u64,
}

impl Asked {
    pub(crate) fn read(bytes: &[u8; QUERY], version: &Version) -> Self {
        let [kind, pointer @ .., _, _, _, _] = bytes;
        Self { query: version.query(*kind), pointer: u64::from_le_bytes(*pointer) }
    }
}

impl Viewer {
    /// Answers a query that asks for something; whether it was known.
    pub(crate) fn answer(&mut self, asked: Asked, catalogue: &Catalogue) -> bool {
        let Asked { query, pointer } = asked;
        let is_known = match query {
            Query::String => self.answer_text(Kind::StringData, pointer, catalogue),
            Query::PlotName => self.answer_text(Kind::PlotName, pointer, catalogue),
            Query::FrameName => self.answer_text(Kind::FrameName, pointer, catalogue),
            Query::ThreadString => self.answer_thread(pointer, catalogue),
            Query::ExternalName => self.answer_external(pointer, catalogue),
            Query::SourceLocation => self.answer_location(pointer, catalogue),
            Query::CallstackFrame => match catalogue.frames.get(&pointer) {
                Some(row) => {
                    self.answer_frame(pointer, row);
                    true
                }
                None => false,
            },
            Query::Symbol => match catalogue.symbols.get(&pointer) {
                Some((file, line)) => {
                    self.writer.single(file);
                    drop(self.writer.begin(Kind::SymbolInformation).u32(*line).u64(pointer));
                    true
                }
                None => false,
            },
            Query::SymbolCode => {
                self.writer.plain(Kind::SymbolCodeNotAvailable);
                true
            }
            Query::SourceCode => {
                drop(self.writer.begin(Kind::SourceCodeNotAvailable).u32(pointer as u32));
                true
            }
            Query::Terminate | Query::Disconnect | Query::Other => false,
        };
        if !is_known {
            self.writer.plain(Kind::Noop);
        }
        self.cut();
        is_known
    }

    fn answer_text(&mut self, kind: Kind, pointer: u64, catalogue: &Catalogue) -> bool {
        let text = match pointer {
            OTHER_LOCATIONS => Some("[other zones]"),
            _ => catalogue.find_text(pointer),
        };
        let Some(text) = text else { return false };
        self.writer.answer(kind, pointer, text);
        true
    }

    fn answer_thread(&mut self, pointer: u64, catalogue: &Catalogue) -> bool {
        let Ok(thread) = u32::try_from(pointer) else { return false };
        let Some(row) = catalogue.threads.get(&thread) else { return false };
        self.writer.answer(Kind::ThreadName, pointer, &row.label);
        // Threads of one process are shown together.
        if let Ok(group) = i32::try_from(row.pid)
            && group != 0
            && self.is_shown(thread)
        {
            drop(self.writer.begin(Kind::ThreadGroupHint).u32(thread).i32(group));
        }
        true
    }

    fn answer_external(&mut self, pointer: u64, catalogue: &Catalogue) -> bool {
        let row = u32::try_from(pointer).ok().and_then(|thread| catalogue.threads.get(&thread));
        let Some(row) = row else { return false };
        self.writer.answer(Kind::ExternalThreadName, pointer, &row.name);
        self.writer.answer(Kind::ExternalName, pointer, &row.process);
        true
    }

    fn answer_location(&mut self, pointer: u64, catalogue: &Catalogue) -> bool {
        let Some(row) = catalogue.find_location(pointer) else {
            if pointer == OTHER_LOCATIONS {
                let location = self.writer.begin(Kind::SourceLocation).u64(OTHER_LOCATIONS);
                drop(location.u64(OTHER_LOCATIONS).u64(OTHER_LOCATIONS).u32(0).u8(0).u8(0).u8(0));
            }
            return pointer == OTHER_LOCATIONS;
        };
        let name = row.name.map_or(0, crate::catalogue::TextId::pointer);
        let [_, red, green, blue] = row.color.to_be_bytes();
        let location = self.writer.begin(Kind::SourceLocation).u64(name);
        let location = location.u64(row.function.pointer()).u64(row.file.pointer()).u32(row.line);
        drop(location.u8(blue).u8(green).u8(red));
        true
    }

    /// What an address stands for.
    pub(crate) fn answer_frame(&mut self, address: u64, row: &FrameRow) {
        let lines = &row.lines[..row.lines.len().min(usize::from(u8::MAX))];
        self.writer.single(&row.image);
        drop(self.writer.begin(Kind::CallstackFrameSize).u64(address).u8(lines.len() as u8));
        for line in lines {
            self.writer.single(&line.name);
            self.writer.second(&line.file);
            let frame = self.writer.begin(Kind::CallstackFrame).u32(line.line);
            drop(frame.u64(line.symbol).u32(line.length));
        }
    }
}
