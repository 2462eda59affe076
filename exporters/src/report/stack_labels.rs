//! What the frames of stacks are called.

use super::data::StackLabels;
use super::own_code::{self, Code};
use super::wait_for::{is_kernel, of_user_function};
use super::wait_python::{self, is_python};
use syscollect_model::{FrameId, StackId, Tables};

/// What a stack's frames are called, innermost first, and which of them are interpreted or the
/// program's own.
pub(super) fn labels(stack: Option<StackId>, tables: &Tables) -> StackLabels {
    let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
    let interpreted =
        (0..frames.len()).filter(|index| wait_python::is_python(&frames[*index], tables));
    StackLabels {
        frames: frames.iter().map(|frame| tables.frame_label(*frame)).collect(),
        interpreted: interpreted.collect(),
        own: own(frames, tables),
    }
}

/// The places of the program's own functions, or else of those of its libraries.
fn own(frames: &[FrameId], tables: &Tables) -> Vec<usize> {
    let codes: Vec<Code> = frames.iter().map(|frame| own_code::of_frame(*frame, tables)).collect();
    let most = codes.iter().max().copied().filter(|code| *code > Code::Runtime);
    (0..codes.len()).filter(|place| Some(codes[*place]) == most).collect()
}

/// The program's own function that was called last, and what it called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OwnCall {
    pub(super) function: Option<String>,
    /// Of the library, as programs call it.
    pub(super) called: Option<String>,
}

impl OwnCall {
    pub(super) fn of(stack: StackId, tables: &Tables) -> Self {
        let frames = tables.stack(stack);
        let Some(place) = own(frames, tables).first().copied() else { return Self::default() };
        let mut inside = frames[..place].iter().rev();
        // Between two functions of Python are those of its interpreter. Else it is the function
        // that is known to wait, which templates and wrappers may be around.
        let called = match is_python(&frames[place], tables) {
            true => inside.find(|frame| is_python(frame, tables)),
            false => inside
                .clone()
                .find(|frame| {
                    let name = tables.frame(**frame).function.map(|name| tables.strings.get(name));
                    !is_kernel(frame, tables)
                        && name.is_some_and(|name| of_user_function(name).is_some())
                })
                .or_else(|| inside.next().filter(|frame| !is_kernel(frame, tables))),
        };
        Self {
            function: Some(tables.frame_label(frames[place])),
            called: called.map(|frame| {
                let label = tables.frame_label(*frame);
                let label = label.trim_start_matches('_');
                let label = label.strip_prefix("GI_").unwrap_or(label).trim_start_matches('_');
                label.split('@').next().unwrap_or(label).to_owned()
            }),
        }
    }
}
