//! PDB identities of images, read when they are loaded: an installer's library
//! is gone when the recording ends, and what was rebuilt meanwhile is another file.
//!
//! A session of its own, live, that hears nothing but loads of images: a few
//! hundred a second while programs start, else none. ferrisetw serves here. It
//! cannot do the recording itself: its sessions always have a live consumer, which
//! would take every event twice, and it has no way to ask for stacks, to set the
//! rate of samples, or to tell what was lost.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use ferrisetw::parser::Parser;
use ferrisetw::provider::{EventFilter, Provider};
use ferrisetw::trace::stop_trace_by_name;
use ferrisetw::{EventRecord, SchemaLocator, UserTrace};

use crate::identity::{Identity, identity_of};
use crate::plan::{NAME_PREFIX, WATCH_SUFFIX};

/// Microsoft-Windows-Kernel-Process.
const PROVIDER: &str = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716";
/// Its keyword of images, and the event that one was loaded.
const KEYWORD_IMAGE: u64 = 0x40;
const IMAGE_LOADED: u16 = 5;
/// Names that wait to be looked at; what comes when it is full is looked at when the recording
/// ends.
const QUEUE: usize = 4096;

/// Notes identities until it is stopped.
pub struct ImageWatch {
    trace: UserTrace,
    name: String,
    reader: JoinHandle<HashMap<String, Identity>>,
}

impl ImageWatch {
    /// Starts to watch.
    ///
    /// # Errors
    ///
    /// In words, where the session cannot be started; a recording goes on without.
    pub fn start(pid: u32) -> Result<Self, String> {
        let (sender, names) = sync_channel(QUEUE);
        let provider = Provider::by_guid(PROVIDER)
            .any(KEYWORD_IMAGE)
            .add_filter(EventFilter::ByEventIds(vec![IMAGE_LOADED]))
            .add_callback(move |record, schemas| note(record, schemas, &sender))
            .build();
        let name = format!("{NAME_PREFIX}{pid}{WATCH_SUFFIX}");
        let trace = UserTrace::new().named(name.clone()).enable(provider).start_and_process();
        let trace = trace.map_err(|error| {
            format!("images that vanish while recording stay unidentified: {error:?}")
        })?;
        let reader =
            std::thread::Builder::new().name("images".to_owned()).spawn(move || read(&names));
        let reader = reader.map_err(|error| {
            format!("images that vanish while recording stay unidentified: {error}")
        })?;
        Ok(Self { trace, name, reader })
    }

    /// Stops to watch; the identities by the names that the kernel gives images.
    #[must_use]
    pub fn stop(self) -> HashMap<String, Identity> {
        // Closes the queue: the callback goes with the trace.
        drop(self.trace);
        // It is not stopped where its live consumer could not be closed.
        let _ = stop_trace_by_name(&self.name);
        self.reader.join().unwrap_or_default()
    }
}

fn note(record: &EventRecord, schemas: &SchemaLocator, names: &SyncSender<String>) {
    if record.event_id() != IMAGE_LOADED {
        return;
    }
    let Ok(schema) = schemas.event_schema(record) else { return };
    if let Ok(name) = Parser::create(record, &schema).try_parse::<String>("ImageName") {
        // Full: the image is looked at when the recording ends, like those that were loaded before.
        let _ = names.try_send(name);
    }
}

/// The first file of a name wins: whoever loads it later finds out by its time stamp.
fn read(names: &Receiver<String>) -> HashMap<String, Identity> {
    let mut known = HashMap::new();
    for name in names {
        if !known.contains_key(&name)
            && let Some(identity) = identity_of(&name)
        {
            known.insert(name, identity);
        }
    }
    known
}
