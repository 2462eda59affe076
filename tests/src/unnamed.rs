//! Events as lines in which tasks are numbers: names change, and a file shows the last ones.

use syscollect_exporters::{ExportError, TextExporter};
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Tables, Time};

/// Keeps the lines of all events, without what is told of names and of the recorder.
#[derive(Default)]
pub struct Unnamed {
    text: Option<TextExporter<Vec<u8>>>,
    tables: Tables,
    /// How much the tables had when they were copied.
    copied: Vec<usize>,
}

impl Unnamed {
    /// The lines, once it is over.
    ///
    /// # Panics
    ///
    /// Never: memory takes every byte, and lines are UTF-8.
    pub fn lines(self) -> Vec<String> {
        let bytes = self.text.map(|text| text.finish().expect("memory takes every byte"));
        let text = String::from_utf8(bytes.unwrap_or_default()).expect("lines are UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    /// The tables without names of tasks.
    fn unnamed(&mut self, tables: &Tables) {
        let size = vec![
            tables.strings.len(),
            tables.threads.len(),
            tables.processes.len(),
            tables.tracks.len(),
            tables.locks.len(),
            tables.locations.len(),
            tables.schemas.len(),
            tables.frames.len(),
            tables.stack_count(),
        ];
        if size == self.copied {
            return;
        }
        (self.tables, self.copied) = (tables.clone(), size);
        let nobody = self.tables.strings.intern("");
        self.tables.threads.iter_mut().for_each(|thread| thread.name = nobody);
        self.tables.processes.iter_mut().for_each(|process| process.name = nobody);
    }
}

impl Exporter for Unnamed {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), Self::Error> {
        self.unnamed(tables);
        self.text.insert(TextExporter::new(Vec::new())).begin(&self.tables)
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        if matches!(event, Event::ThreadName(..)) {
            return Ok(());
        }
        self.unnamed(tables);
        self.text.as_mut().map_or(Ok(()), |text| text.event(time, event, &self.tables))
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Self::Error> {
        self.unnamed(tables);
        self.text.as_mut().map_or(Ok(()), |text| text.end(losses, recorder, &self.tables))
    }
}
